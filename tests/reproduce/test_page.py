import pytest

from dlgm.reproduce.page import markdown_table, put_pictures, put_section


def test_sections_are_replaced_and_the_rest_is_left_alone(tmp_path):
    page = tmp_path / "results.md"
    page.write_text("# Results\n\nA word by hand.\n")
    put_section(page, "one", "first")
    put_section(page, "two", "other")
    before = page.read_text()
    assert before.startswith("# Results\n\nA word by hand.\n\n<!-- written by `dlgm reproduce one` -->\n\nfirst\n\n")
    put_section(page, "one", "second")
    assert page.read_text() == before.replace("first", "second")
    put_section(page, "three", "last", by="a script")
    assert page.read_text().endswith("<!-- written by `a script` -->\n\nlast\n\n<!-- end of three -->\n")


def test_a_section_without_an_end_is_refused(tmp_path):
    page = tmp_path / "results.md"
    page.write_text("<!-- written by `dlgm reproduce one` -->\n\nfirst\n")
    with pytest.raises(ValueError, match="has no end"):
        put_section(page, "one", "second")
    assert "first" in page.read_text()


def test_a_table_is_markdown():
    found = markdown_table(["a", "p(x|y)"], [(1, None), ("x", 2.5)])
    assert found == "| a | p(x\\|y) |\n| --- | --- |\n| 1 |  |\n| x | 2.5 |"


def test_pictures_lie_beside_the_page_under_the_study_s_name(tmp_path):
    page = tmp_path / "results.md"
    shown = put_pictures(page, "samples", {"samples": b"one", "frey-faces": b"two"})
    assert shown == "![samples](figures/samples.png)\n\n![samples frey faces](figures/samples-frey-faces.png)"
    assert (tmp_path / "figures" / "samples.png").read_bytes() == b"one"
    assert (tmp_path / "figures" / "samples-frey-faces.png").read_bytes() == b"two"
    assert put_pictures(page, "samples", {}) == ""
