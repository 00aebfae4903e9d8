"""Archives that are fetched: what is taken out of them, and what is refused."""

import gzip
import io
import os
import tarfile

import pytest

from dlgm.data.errors import DataFileError, DataNotFoundError
from dlgm.data.fetching import Fetcher
from tests.data.toys import everything_in, sha256, toy


def archive(*entries):
    """A tar.gz file of names with contents, or of `TarInfo`s."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                tar.addfile(entry)
            else:
                info = tarfile.TarInfo(entry[0])
                info.size = len(entry[1])
                tar.addfile(info, io.BytesIO(entry[1]))
    return file.getvalue()


def link(name, target, kind=tarfile.SYMTYPE):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


MEMBERS = {"bin/one": sha256(b"1"), "bin/two": sha256(b"22")}


def fetch_archive(server, fetcher, root, content, members=MEMBERS):
    server.files["/toy/all.tar.gz"] = content
    source = toy(f"{server.address}/toy/", content=content, name="all.tar.gz", members=members)
    return fetcher.fetch(source, root)


def test_an_archive_is_unpacked_and_not_kept(server, fetcher, tmp_path):
    content = archive(("bin/readme", b"hello"), ("bin/two", b"22"), ("bin/one", b"1"))
    assert fetch_archive(server, fetcher, tmp_path, content) is True
    assert everything_in(tmp_path) == ["toy", "toy/bin", "toy/bin/one", "toy/bin/two"]
    assert (tmp_path / "toy/bin/two").read_bytes() == b"22"
    assert fetch_archive(server, fetcher, tmp_path, content) is False
    (tmp_path / "toy/bin/two").write_bytes(b"23")
    assert fetch_archive(server, fetcher, tmp_path, content) is True
    assert (tmp_path / "toy/bin/two").read_bytes() == b"22"


def test_nothing_is_written_where_an_archive_wants_it(server, fetcher, tmp_path):
    """Absolute names, names that climb, and links to lead other members astray are left alone."""
    away = tmp_path / "away"
    away.mkdir()
    content = archive(
        (f"{away}/absolute", b"evil"),
        ("../../away/climbing", b"evil"),
        link("sly", str(away)),
        ("sly/through", b"evil"),
        ("bin/one", b"1"),
        ("bin/two", b"22"),
    )
    fetch_archive(server, fetcher, tmp_path / "cache", content)
    assert everything_in(tmp_path) == ["away", "cache", "cache/toy", "cache/toy/bin", *(
        f"cache/toy/bin/{name}" for name in ("one", "two")
    )]  # fmt: skip


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE], ids=["symlink", "link", "folder"])
def test_a_member_must_be_a_plain_file(server, fetcher, tmp_path, kind):
    content = archive(("bin/one", b"1"), link("bin/two", "bin/one", kind))
    with pytest.raises(DataFileError, match=r"expected bin/two to be a plain file; got a link or a folder\."):
        fetch_archive(server, fetcher, tmp_path, content)
    assert everything_in(tmp_path) == ["toy"]


def test_a_member_that_is_missing_or_wrong(server, fetcher, tmp_path):
    with pytest.raises(DataFileError, match=r"all\.tar\.gz: expected bin/two in it; got an archive without\."):
        fetch_archive(server, fetcher, tmp_path, archive(("bin/one", b"1")))
    with pytest.raises(DataFileError, match=rf"bin/two: expected SHA-256 {sha256(b'22')}; got {sha256(b'33')}\."):
        fetch_archive(server, fetcher, tmp_path, archive(("bin/one", b"1"), ("bin/two", b"33")))
    assert everything_in(tmp_path) == ["toy"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"no archive",
        lambda content: content[: len(content) // 2],
        lambda content: gzip.compress(b"tar"),
    ],
    ids=["other", "cut", "no tar"],
)
def test_a_damaged_archive(server, fetcher, tmp_path, damage):
    content = archive(("bin/one", b"1"), ("bin/two", os.urandom(50_000)))
    with pytest.raises(DataFileError, match=r"all\.tar\.gz: expected a whole tar\.gz file; got "):
        fetch_archive(server, fetcher, tmp_path, damage(content))
    assert everything_in(tmp_path) == ["toy"]


def test_an_archive_put_there_by_hand_needs_no_network(told, tmp_path):
    content = archive(("bin/one", b"1"), ("bin/two", b"22"))
    source = toy("http://127.0.0.1:1/", content=content, name="all.tar.gz", members=MEMBERS)
    path = tmp_path / "toy/all.tar.gz"
    path.parent.mkdir()
    path.write_bytes(content[:-1])
    with pytest.raises(DataNotFoundError):
        Fetcher(offline=True, tell=told.append).fetch(source, tmp_path)
    path.write_bytes(content)
    assert Fetcher(offline=True, tell=told.append).fetch(source, tmp_path) is True
    assert everything_in(tmp_path) == ["toy", "toy/all.tar.gz", "toy/bin", "toy/bin/one", "toy/bin/two"]
    assert told == []
