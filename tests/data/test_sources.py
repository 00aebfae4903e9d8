"""The table of published files agrees with the readers, with the page that shows it, and with itself."""

import re
from pathlib import Path

import pytest

from dlgm.data.registry import TABLE
from dlgm.data.sources import size_in_words

WITH_FILES = [entry for entry in TABLE if entry.source is not None]
SOURCES = {entry.source.name: entry.source for entry in WITH_FILES if entry.source is not None}
PAGE = Path(__file__).parents[2] / "docs" / "data.md"

each = pytest.mark.parametrize("entry", WITH_FILES, ids=lambda entry: entry.name)
each_source = pytest.mark.parametrize("source", SOURCES.values(), ids=lambda source: source.name)


def test_only_the_embedded_set_has_no_source():
    assert [entry.name for entry in TABLE if entry.source is None] == ["digits"]


@each
def test_what_is_fetched_is_what_is_read(entry):
    kept = [f"{entry.source.folder}/{name}" for file in entry.source.files for name in file.kept]
    assert [name.removesuffix(".gz") for name in kept] == [f"{entry.folder}/{name}" for name in entry.files]


@each
def test_what_has_no_checksum_can_be_checked(entry):
    sums = [sha256 for file in entry.source.files for sha256 in (file.sha256, *file.kept.values())]
    assert None not in sums or entry.check is not None
    for sha256 in sums:
        assert sha256 is None or re.fullmatch(r"[0-9a-f]{64}", sha256)


def test_checksums_are_all_different():
    """A slip of the clipboard would show."""
    sums = [sha256 for source in SOURCES.values() for file in source.files for sha256 in file.kept.values()]
    assert len(sums) == len(set(sums)) == 24


def test_what_is_known():
    unknown = {name for name, source in SOURCES.items() if any(file.sha256 is None for file in source.files)}
    assert unknown == {"frey-faces"}


@each_source
def test_addresses(source):
    for mirror in source.mirrors:
        assert re.fullmatch(r"https?://[a-z0-9.-]+/(\S*/)?", mirror)
    assert re.match("https?://", source.page)
    assert source.terms
    assert not Path(source.folder).is_absolute()
    for file in source.files:
        assert Path(file.name).name == file.name
        assert file.size > 0
        for name in file.kept:
            assert ".." not in Path(name).parts
            assert not Path(name).is_absolute()


@each_source
def test_the_page_shows_the_table(source):
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| `{source.name}`")]
    assert len(rows) == 1
    for words in (source.page, source.terms, size_in_words(source.size)):
        assert words in rows[0]
