from base64 import b64decode
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.figure import Figure

from dlgm.report import Report

NASTY = "<script>alert(\"1\")</script> & 'more'"
VOID = {"meta", "img"}


class Page(HTMLParser):
    """Tags with their attributes, and text by the tag it is in; refuses a tag closed out of turn."""

    def __init__(self, html):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict]] = []
        self.text: dict[str, list[str]] = {}
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and data.strip():
            self.text.setdefault(self.open[-1], []).append(data.strip())

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def picture():
    figure = Figure(figsize=(2, 1))
    figure.add_subplot().plot([0, 1], [1, 0])
    return figure


def full_report():
    report = Report(NASTY, NASTY)
    report.figure(picture(), "before any section").section(NASTY, f"{NASTY}\n\nsecond").figure(picture(), NASTY, NASTY)
    report.table(["model", NASTY], [[NASTY, 1.5], ["b", NASTY]], NASTY).section("B").section("C").table(["a"], [])
    return report.facts({NASTY: NASTY, "rows": 1797})


def test_everything_is_escaped_and_comes_back_as_it_was():
    html = full_report().html()
    assert "<script" not in html
    page = Page(html)
    for tag in ("title", "h1", "h2", "dt", "dd", "figcaption", "caption", "th", "td"):
        assert NASTY in page.text[tag], tag
    assert page.text["p"] == [NASTY, NASTY, "second"]
    assert page.all("img")[1]["alt"] == NASTY


def test_nothing_comes_from_elsewhere():
    html = full_report().html()
    assert "http" not in html
    assert "url(" not in html
    assert "@import" not in html
    page = Page(html)
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "link", "iframe", "object"})
    assert all(image["src"].startswith("data:image/png;base64,") for image in page.all("img"))
    names = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    assert {link["href"].removeprefix("#") for link in page.all("a")} == names


def test_readable_by_machines_for_people():
    page = Page(full_report().html())
    assert page.all("html") == [{"lang": "en"}]
    assert any(meta.get("name") == "viewport" for meta in page.all("meta"))
    assert all(image["alt"] and image["width"] == "192" and image["height"] == "96" for image in page.all("img"))
    assert {cell["scope"] for cell in page.all("th")} == {"col", "row"}
    assert "prefers-color-scheme: dark" in page.text["style"][0]
    assert "@media print" in page.text["style"][0]


def test_the_same_content_gives_the_same_bytes():
    assert full_report().html() == full_report().html()
    png = b64decode(Page(full_report().html()).all("img")[0]["src"].split(",")[1])
    assert png.startswith(b"\x89PNG")
    assert b"tEXt" not in png
    assert b"tIME" not in png


def test_numbers_are_set_right_and_words_left():
    report = Report("t").table(
        ["name", "n", "log p", "note"],
        [["a", np.int64(12345), "-86.60 ± 0.20", "3rd"], ["b", None, np.float32(0.25), "good"], ["c", 1, "–", True]],
    )
    page = Page(report.html())
    assert [cell.get("class") for cell in page.all("th")[:4]] == [None, "number", "number", None]
    assert page.text["td"] == ["12,345", "-86.60 ± 0.20", "3rd", "–", "0.25", "good", "1", "–", "yes"]


def test_an_empty_report_is_a_page():
    assert Page(Report("only a title").html()).text["h1"] == ["only a title"]


def test_refusals():
    with pytest.raises(ValueError) as caught:
        Report("t").table(["a", "b"], [[1, 2], [3]])
    assert str(caught.value) == "Report.table: expected 2 cells a row, one for each header; row 1 has 1."
    with pytest.raises(ValueError) as caught:
        Report("t").figure(picture(), " ")
    assert str(caught.value) == "Report.figure: expected `alt` to describe the picture; got an empty text."
