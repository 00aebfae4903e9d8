"""The pages name tests as their evidence: those tests exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_test_that_a_page_names_exists():
    written = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    defined = set(re.findall(r"^def (test_\w+)", written, re.MULTILINE))
    named = {
        (page.name, name)
        for page in (ROOT / "docs").glob("*.md")
        for name in re.findall(r"`(test_\w+)`", page.read_text())
    }
    assert len(named) > 20
    assert {(page, name) for page, name in named if name not in defined} == set()


def test_every_file_that_a_page_links_to_exists():
    for page in [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")]:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page.name} links to {link}"
