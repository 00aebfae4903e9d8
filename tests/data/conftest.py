import pytest

from dlgm.data.fetching import Fetcher
from tests.data.server import Server
from tests.data.toys import CONTENT


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Server() as server:
        server.files["/toy/a.bin"] = CONTENT
        yield server


@pytest.fixture
def told():
    return []


@pytest.fixture
def fetcher(told):
    """One that does not sleep, but says how long it would have."""
    return Fetcher(offline=False, tell=told.append, sleep=lambda seconds: told.append(f"slept {seconds}"))
