"""A web server on this machine, which can be told to misbehave."""

import socket
import struct
import threading
from collections import defaultdict
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# What a server may do with a request for `body`: each is called with the handler and the body.


def whole(handler, body):
    start(handler, body)
    handler.wfile.write(body)


def half(handler, body):
    """Promise all, send half, and close in good order."""
    start(handler, body)
    handler.wfile.write(body[: len(body) // 2])
    handler.close_connection = True


def die(handler, body):
    """Send half, and be gone: the connection is reset."""
    start(handler, body)
    handler.wfile.write(body[: len(body) // 2])
    handler.wfile.flush()
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True


def declared_gzip(handler, body):
    """Say of a gzipped file that gzip is how it is being sent."""
    start(handler, body, {"Content-Encoding": "gzip"})
    handler.wfile.write(body)


def status(code):
    return lambda handler, body: handler.send_error(code)


def start(handler, body, headers=None):
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body)))
    for name, value in (headers or {}).items():
        handler.send_header(name, value)
    handler.end_headers()


class Server:
    """Serves `files` (content by path); `script` has, for a path, what to do at the first requests for it."""

    def __init__(self):
        self.files: dict[str, bytes] = {}
        self.script: dict[str, list[Callable]] = defaultdict(list)
        self.seen: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.seen.append(self.path)
                if self.path not in outer.files:
                    self.send_error(404)
                    return
                acts = outer.script[self.path]
                act = acts.pop(0) if acts else whole
                act(self, outer.files[self.path])

            def log_message(self, *args):
                pass

        class Quiet(ThreadingHTTPServer):
            def handle_error(self, request, client_address):
                """A client that goes away is not this server's trouble."""

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def address(self):
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *args):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
