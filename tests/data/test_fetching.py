"""Fetching from a server on this machine that is well, slow to answer, broken, dead or wrong."""

import gzip
import os
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from dlgm import locking
from dlgm.data.errors import DataError, DataFetchError, DataFileError, DataNotFoundError
from dlgm.data.fetching import Fetcher, forbidden
from dlgm.data.sources import PublishedFile, Source
from tests.data.server import declared_gzip, die, half, start, status, whole
from tests.data.toys import CONTENT, everything_in, sha256, toy

OTHER = b"something else"
LONG = 60  # seconds after which a test that hangs gives up


# Good days


def test_a_good_download(server, fetcher, told, tmp_path):
    source = toy(f"{server.address}/toy/")
    assert fetcher.fetch(source, tmp_path) is True
    assert (tmp_path / "toy/a.bin").read_bytes() == CONTENT
    assert everything_in(tmp_path) == ["toy", "toy/a.bin"]
    assert told == [
        f"Fetching toy: 1.05 MB from {server.address}/toy/ to {tmp_path}/toy. Terms: for play, see http://toys.example"
    ]
    assert fetcher.fetch(source, tmp_path) is False  # it is there, and whole
    assert server.seen == ["/toy/a.bin"]


def test_force_fetches_again(server, fetcher, tmp_path):
    source = toy(f"{server.address}/toy/")
    fetcher.fetch(source, tmp_path)
    assert fetcher.fetch(source, tmp_path, force=True) is True
    assert server.seen == 2 * ["/toy/a.bin"]


def test_only_what_is_lacking_is_fetched(server, fetcher, tmp_path):
    server.files["/toy/b.bin"] = OTHER
    files = (PublishedFile("a.bin", 1, sha256(CONTENT)), PublishedFile("b.bin", 1, sha256(OTHER)))
    source = Source("toy", "toy", "", "", (f"{server.address}/toy/",), files)
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy/b.bin").write_bytes(OTHER)
    fetcher.fetch(source, tmp_path)
    assert server.seen == ["/toy/a.bin"]


def test_a_gzipped_file_stays_gzipped(server, fetcher, tmp_path):
    """Some servers declare the compression of a .gz file to be that of the transfer, and clients undo it."""
    content = gzip.compress(CONTENT, mtime=0)
    server.files["/toy/a.gz"] = content
    server.script["/toy/a.gz"] = [declared_gzip]
    fetcher.fetch(toy(f"{server.address}/toy/", content=content, name="a.gz"), tmp_path)
    assert (tmp_path / "toy/a.gz").read_bytes() == content


def test_own_mirror_comes_first(server, fetcher, tmp_path, monkeypatch):
    monkeypatch.setenv("DLGM_MIRROR", server.address)
    fetcher.fetch(toy("http://127.0.0.1:1/never/asked/"), tmp_path)
    assert server.seen == ["/toy/a.bin"]


def test_a_leftover_of_a_killed_process_is_swept_away(server, fetcher, tmp_path):
    (tmp_path / "toy/.partial-abc").mkdir(parents=True)
    (tmp_path / "toy/.partial-abc/a.bin").write_bytes(CONTENT[:1000])
    fetcher.fetch(toy(f"{server.address}/toy/"), tmp_path)
    assert everything_in(tmp_path) == ["toy", "toy/a.bin"]


# Bad days


@pytest.mark.parametrize("act", [half, die], ids=["truncated", "reset"])
def test_a_transfer_that_always_breaks_off(server, fetcher, told, tmp_path, act):
    server.script["/toy/a.bin"] = 9 * [act]
    address = f"{server.address}/toy/a.bin"
    with pytest.raises(DataFetchError) as caught:
        fetcher.fetch(toy(f"{server.address}/toy/"), tmp_path)
    assert str(caught.value) == (
        f"toy: could not fetch a.bin: {address}: the transfer broke off. "
        f"Try later, or put it in {tmp_path}/toy by hand."
    )
    assert isinstance(caught.value, DataError)
    assert isinstance(caught.value, OSError)
    assert everything_in(tmp_path) == ["toy"]
    assert told[1:] == [
        f"{address}: the transfer broke off.",
        "Trying again in 1 s.",
        "slept 1.0",
        f"{address}: the transfer broke off.",
        "Trying again in 4 s.",
        "slept 4.0",
        f"{address}: the transfer broke off.",
    ]


@pytest.mark.parametrize("act", [half, die, status(503)], ids=["truncated", "reset", "overloaded"])
def test_a_retry_that_succeeds(server, fetcher, told, tmp_path, act):
    server.script["/toy/a.bin"] = [act, act, whole]
    fetcher.fetch(toy(f"{server.address}/toy/"), tmp_path)
    assert (tmp_path / "toy/a.bin").read_bytes() == CONTENT
    assert [line for line in told if line.startswith("slept")] == ["slept 1.0", "slept 4.0"]
    assert everything_in(tmp_path) == ["toy", "toy/a.bin"]


def test_a_wrong_checksum_is_not_kept(server, fetcher, told, tmp_path):
    server.files["/toy/a.bin"] = OTHER
    with pytest.raises(DataFetchError) as caught:
        fetcher.fetch(toy(f"{server.address}/toy/"), tmp_path)
    assert str(caught.value) == (
        f"toy: could not fetch a.bin: {server.address}/toy/a.bin: expected SHA-256 {sha256(CONTENT)}; "
        f"got {sha256(OTHER)}. Try later, or put it in {tmp_path}/toy by hand."
    )
    assert everything_in(tmp_path) == ["toy"]
    assert server.seen == ["/toy/a.bin"]  # it would be as wrong the next time
    assert not any(line.startswith("slept") for line in told)


def test_a_file_that_is_gone(server, fetcher, tmp_path):
    with pytest.raises(DataFetchError, match=r"/gone/a\.bin: 404 Not Found\. Try later, "):
        fetcher.fetch(toy(f"{server.address}/gone/"), tmp_path)
    assert server.seen == ["/gone/a.bin"]
    assert everything_in(tmp_path) == ["toy"]


def nobody_listens():
    """An address at which no server is, nor will be: the port is taken by a socket that does not listen."""
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    return taken, f"http://127.0.0.1:{taken.getsockname()[1]}/toy/"


def test_a_dead_mirror_and_one_that_works(server, fetcher, told, tmp_path):
    taken, dead = nobody_listens()
    with taken:
        fetcher.fetch(toy(dead, f"{server.address}/gone/", f"{server.address}/toy/"), tmp_path)
    assert (tmp_path / "toy/a.bin").read_bytes() == CONTENT
    assert told[1:] == [f"{dead}a.bin: no connection.", f"{server.address}/gone/a.bin: 404 Not Found."]
    assert server.seen == ["/gone/a.bin", "/toy/a.bin"]


def test_a_wrong_mirror_and_one_that_works(server, fetcher, tmp_path):
    server.files["/stale/a.bin"] = OTHER
    fetcher.fetch(toy(f"{server.address}/stale/", f"{server.address}/toy/"), tmp_path)
    assert (tmp_path / "toy/a.bin").read_bytes() == CONTENT


def test_all_mirrors_dead(fetcher, tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    (one, first), (two, second) = nobody_listens(), nobody_listens()
    with one, two, pytest.raises(DataFetchError) as caught:
        fetcher.fetch(toy(first, second), tmp_path)
    assert str(caught.value) == (
        f"toy: could not fetch a.bin: {first}a.bin: no connection; {second}a.bin: no connection. "
        f"Try later, or put it in {tmp_path}/toy by hand."
    )


def test_a_damaged_file_in_the_cache_is_noticed(server, fetcher, told, tmp_path):
    source = toy(f"{server.address}/toy/")
    fetcher.fetch(source, tmp_path)
    path = tmp_path / "toy/a.bin"
    damage = CONTENT[:500] + b"!" + CONTENT[501:]
    path.write_bytes(damage)
    told.clear()
    assert fetcher.fetch(source, tmp_path) is True
    assert told[0] == f"{path}: expected SHA-256 {sha256(CONTENT)}; got {sha256(damage)}."
    assert path.read_bytes() == CONTENT


def test_a_failure_keeps_the_file_that_was_there(server, fetcher, tmp_path):
    source = toy(f"{server.address}/toy/")
    fetcher.fetch(source, tmp_path)
    server.script["/toy/a.bin"] = 9 * [half]
    with pytest.raises(DataFetchError):
        fetcher.fetch(source, tmp_path, force=True)
    assert (tmp_path / "toy/a.bin").read_bytes() == CONTENT
    assert everything_in(tmp_path) == ["toy", "toy/a.bin"]


# Without a checksum


def starts_with_zero(path):
    if path.read_bytes()[:1] != b"\0":
        raise DataFileError(f"{path}: expected a zero; got another. Fetch the file again.")


def test_without_a_checksum_the_content_is_checked(server, fetcher, tmp_path):
    source = toy(f"{server.address}/toy/", known=False)
    server.files["/toy/a.bin"] = OTHER
    with pytest.raises(DataFetchError, match=r"/toy/a\.bin: expected a zero; got another\. Try later"):
        fetcher.fetch(source, tmp_path, check=starts_with_zero)
    assert everything_in(tmp_path) == ["toy"]
    server.files["/toy/a.bin"] = CONTENT
    assert fetcher.fetch(source, tmp_path, check=starts_with_zero) is True
    assert fetcher.fetch(source, tmp_path, check=starts_with_zero) is False
    (tmp_path / "toy/a.bin").write_bytes(OTHER)
    assert fetcher.fetch(source, tmp_path, check=starts_with_zero) is True


# Offline


def test_offline(server, told, tmp_path):
    fetcher = Fetcher(offline=True, tell=told.append)
    with pytest.raises(DataNotFoundError) as caught:
        fetcher.fetch(toy(f"{server.address}/toy/"), tmp_path)
    assert str(caught.value) == (
        f"toy: expected a.bin in {tmp_path}/toy; missing or damaged, and fetching is off (--offline or DLGM_OFFLINE). "
        f"Put it there by hand, from {server.address}/toy/, or set DLGM_DATA to a folder that has the set in toy."
    )
    assert (server.seen, told, everything_in(tmp_path)) == ([], [], [])


def test_offline_is_no_matter_for_what_is_there(server, fetcher, tmp_path):
    source = toy(f"{server.address}/toy/")
    fetcher.fetch(source, tmp_path)
    assert Fetcher(offline=True).fetch(source, tmp_path) is False


@pytest.mark.parametrize(("value", "means"), [("1", True), ("yes", True), ("", False), ("0", False), ("False", False)])
def test_the_variable(monkeypatch, value, means):
    monkeypatch.setenv("DLGM_OFFLINE", value)
    assert forbidden() is means
    monkeypatch.delenv("DLGM_OFFLINE")
    assert forbidden() is False


# Several processes


PROGRAM = """
import sys
from pathlib import Path
from dlgm import locking
from dlgm.data.errors import DataError
from dlgm.data.fetching import Fetcher
from dlgm.data.sources import PublishedFile, Source

address, root, size, checksum, prepare = sys.argv[1:]
exec(prepare)
source = Source("toy", "toy", "", "", (address,), (PublishedFile("a.bin", int(size), checksum),))
try:
    print(Fetcher(offline=False, pauses=()).fetch(source, Path(root)))
except DataError as error:
    print(error)
"""


def another_process(server, root, prepare=""):
    arguments = [f"{server.address}/toy/", str(root), str(len(CONTENT)), sha256(CONTENT), prepare]
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.skipif(locking.fcntl is None, reason="this system has no file locks")
def test_two_processes_fetch_once(server, tmp_path):
    """The second waits for the first, which the server holds up until the second has said so."""
    asked, go_on = threading.Event(), threading.Event()

    def held_up(handler, body):
        asked.set()
        go_on.wait(LONG)
        whole(handler, body)

    server.script["/toy/a.bin"] = [held_up]
    with another_process(server, tmp_path) as first:
        assert asked.wait(LONG)
        with another_process(server, tmp_path) as second:
            try:
                assert second.stderr.readline() == "Another process is fetching toy.\n"
            finally:
                go_on.set()
            answers = [process.communicate()[0] for process in (first, second)]
    assert answers == ["True\n", "False\n"]
    assert (tmp_path / "toy/a.bin").read_bytes() == CONTENT
    assert server.seen == ["/toy/a.bin"]
    assert everything_in(tmp_path) == ["toy", "toy/a.bin"]


def test_two_processes_without_locks(server, tmp_path):
    """Both fetch, at the same time: neither gets an answer before both have asked."""
    both = threading.Barrier(2, timeout=LONG)

    def held_up(handler, body):
        both.wait()
        whole(handler, body)

    server.script["/toy/a.bin"] = [held_up, held_up]
    without = "locking.fcntl = None"
    with another_process(server, tmp_path, without) as first, another_process(server, tmp_path, without) as second:
        answers = [process.communicate()[0] for process in (first, second)]
    assert answers == ["True\n", "True\n"]
    assert (tmp_path / "toy/a.bin").read_bytes() == CONTENT
    assert everything_in(tmp_path) == ["toy", "toy/a.bin"]


def test_a_process_that_is_killed(server, fetcher, tmp_path):
    """Half of the file has been sent when it is; the next one starts afresh, and clears up."""
    sent, killed = threading.Event(), threading.Event()

    def stall(handler, body):
        start(handler, body)
        handler.wfile.write(body[: len(body) // 2])
        handler.wfile.flush()
        sent.set()
        killed.wait(LONG)

    server.script["/toy/a.bin"] = [stall]
    with another_process(server, tmp_path) as process:
        assert sent.wait(LONG)
        process.kill()
    killed.set()
    assert not (tmp_path / "toy/a.bin").exists()
    assert len(list((tmp_path / "toy").glob(".partial-*"))) == 1
    assert fetcher.fetch(toy(f"{server.address}/toy/"), tmp_path) is True
    assert everything_in(tmp_path) == ["toy", "toy/a.bin"]


# The disk


def test_a_full_disk_leaves_no_damaged_file(server, tmp_path):
    """No file of this process may be longer than 500,000 bytes, so that writing fails in the middle."""
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy/a.bin").write_bytes(OTHER)
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))"
    with another_process(server, tmp_path, limit) as process:
        answer, _ = process.communicate()
    assert answer == (
        f"toy: cannot write to {tmp_path}/toy: File too large. Make room or give permission there, "
        "or set DLGM_CACHE to another folder.\n"
    )
    assert (tmp_path / "toy/a.bin").read_bytes() == OTHER  # what was there before
    assert everything_in(tmp_path) == ["toy", "toy/a.bin"]
    assert server.seen == ["/toy/a.bin"]  # trying again would not make room


@pytest.fixture
def read_only():
    """A folder in which nothing can be made; not below pytest's, which others may not enter."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o555)
        was = os.geteuid()
        if was == 0:
            os.seteuid(65534)  # root may write anywhere
        try:
            yield folder
        finally:
            os.seteuid(was)
            folder.chmod(0o755)


def test_a_cache_that_cannot_be_written(server, fetcher, read_only):
    with pytest.raises(DataFetchError) as caught:
        fetcher.fetch(toy(f"{server.address}/toy/"), read_only)
    assert str(caught.value) == (
        f"toy: cannot write to {read_only}/toy: Permission denied. Make room or give permission there, "
        "or set DLGM_CACHE to another folder."
    )
    assert server.seen == []


def test_a_cache_that_can_only_be_read(server, fetcher, tmp_path, monkeypatch):
    """What is in it is used: nothing is written, not even a lock."""
    source = toy(f"{server.address}/toy/")
    fetcher.fetch(source, tmp_path)
    monkeypatch.setattr("dlgm.data.fetching.only_one", None)
    assert fetcher.fetch(source, tmp_path) is False


def test_a_file_in_the_way(server, fetcher, tmp_path):
    (tmp_path / "toy").write_text("no folder")
    with pytest.raises(
        DataFetchError, match=r"^toy: cannot write to .*/toy: (File exists|Not a directory)\. Make room"
    ):
        fetcher.fetch(toy(f"{server.address}/toy/"), tmp_path)
    assert (tmp_path / "toy").read_text() == "no folder"


# On a terminal


def test_the_bar(server, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    Fetcher(offline=False, tell=lambda line: None).fetch(toy(f"{server.address}/toy/"), tmp_path)
    assert "a.bin" in capsys.readouterr().err
    Fetcher(offline=False, tell=lambda line: None, bars=False).fetch(
        toy(f"{server.address}/toy/"), tmp_path, force=True
    )
    assert capsys.readouterr().err == ""
