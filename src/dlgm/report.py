"""A report in one HTML file: text, tables and pictures, with nothing to fetch from elsewhere.

The same content gives the same bytes: no dates, and pictures without the name of the program that drew them.
"""

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from numbers import Integral, Real

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dlgm.plots.canvas import as_png, figure_of

# Pictures have two pixels for each of the page's, which keeps them sharp on phones and on paper.
_PAGE_DPI, _DENSITY = 96, 2
_NUMBER = re.compile(r"\s*([-+−±~<>≤≥]\s*)?\.?\d.*")
_BLANK = {"", "-", "–", "—"}


class Report:
    """Collects sections, pictures and tables in the order they are added; `html` gives the page.

    All text is escaped, so that a column called `<b>` is shown and not obeyed. A blank line starts a new paragraph.

    >>> report = Report("Digits", "Two layers of 50 latents")
    >>> page = report.facts({"rows": 1797}).section("Data", "Eight by eight pixels.").html()
    >>> '<h2 id="section-1">Data</h2>' in page
    True
    """

    def __init__(self, title: str, subtitle: str = "") -> None:
        self._title, self._subtitle = title, subtitle
        self._facts: dict[str, object] = {}
        self._headings: list[str] = []
        self._body: list[str] = []

    def facts(self, facts: Mapping[str, object]) -> "Report":
        """Cards at the top of the page, wherever in the order this is called: a label and a short value each."""
        self._facts |= facts
        return self

    def section(self, heading: str, text: str = "") -> "Report":
        """A heading, and paragraphs under it. What is added next belongs to this section."""
        if self._headings:
            self._body.append("</section>")
        self._headings.append(heading)
        name = f"section-{len(self._headings)}"
        self._body.append(f'<section aria-labelledby="{name}">\n<h2 id="{name}">{escape(heading)}</h2>')
        self._body += _paragraphs(text)
        return self

    def figure(self, picture: Figure | Axes, alt: str, caption: str = "") -> "Report":
        """A picture: a figure, or axes that stand for theirs. `alt` says what it shows to who does not see it."""
        if not alt.strip():
            raise ValueError("Report.figure: expected `alt` to describe the picture; got an empty text.")
        width, height = (round(inches * _PAGE_DPI) for inches in figure_of(picture).get_size_inches())
        data = b64encode(as_png(picture, float(_PAGE_DPI * _DENSITY))).decode()
        image = f'<img src="data:image/png;base64,{data}" alt="{escape(alt)}" width="{width}" height="{height}">'
        self._body.append(f"<figure>\n{image}\n{_caption('figcaption', caption)}</figure>")
        return self

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[object]], caption: str = "") -> "Report":
        """A table whose first column names the rows. Columns of numbers are set flush right."""
        for at, row in enumerate(rows):
            if len(row) != len(headers):
                raise ValueError(
                    f"Report.table: expected {len(headers)} cells a row, one for each header; row {at} has {len(row)}."
                )
        cells = [[_text(cell) for cell in row] for row in rows]
        kinds = [' class="number"' if _all_numbers(column) else "" for column in zip(*cells, strict=True)]
        kinds = kinds or [""] * len(headers)
        head = "".join(f'<th scope="col"{kind}>{escape(h)}</th>' for h, kind in zip(headers, kinds, strict=True))
        lines = []
        for row in cells:
            tags = ['th scope="row"'] + ["td"] * (len(row) - 1)
            parts = zip(tags, kinds, row, strict=True)
            lines.append("".join(f"<{tag}{kind}>{escape(cell)}</{tag[:2]}>" for tag, kind, cell in parts))
        body = "".join(f"<tr>{line}</tr>\n" for line in lines)
        # The frame scrolls sideways on a narrow screen; with a tabindex it does so from the keyboard too.
        self._body.append(
            f'<div class="table" role="region" tabindex="0" aria-label="{escape(caption or "Table")}">\n<table>\n'
            f"{_caption('caption', caption)}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n</div>"
        )
        return self

    def html(self) -> str:
        """The page."""
        cards = "".join(
            f"<div><dt>{escape(label)}</dt><dd>{escape(_text(value))}</dd></div>\n"
            for label, value in self._facts.items()
        )
        links = "".join(
            f'<li><a href="#section-{at}">{escape(heading)}</a></li>\n' for at, heading in enumerate(self._headings, 1)
        )
        top = [f"<h1>{escape(self._title)}</h1>"]
        if self._subtitle:
            top.append(f'<p class="subtitle">{escape(self._subtitle)}</p>')
        if cards:
            top.append(f'<dl class="facts">\n{cards}</dl>')
        if len(self._headings) > 2:
            top.append(f'<nav aria-label="Sections">\n<ul>\n{links}</ul>\n</nav>')
        body = [*self._body, "</section>"] if self._headings else self._body
        return _PAGE.format(title=escape(self._title), style=_STYLE, top="\n".join(top), body="\n".join(body))


def _paragraphs(text: str) -> list[str]:
    return [f"<p>{escape(part.strip())}</p>" for part in re.split(r"\n\s*\n", text) if part.strip()]


def _caption(tag: str, text: str) -> str:
    return f"<{tag}>{escape(text)}</{tag}>\n" if text else ""


def _text(value: object) -> str:
    """Whole numbers with commas, other numbers to four digits; a string is taken as it is."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if isinstance(value, Real):
        return f"{float(value):.4g}"
    return "–" if value is None else str(value)


def _all_numbers(cells: Sequence[str]) -> bool:
    values = [cell for cell in cells if cell not in _BLANK]
    return bool(values) and all(_NUMBER.fullmatch(cell) for cell in values)


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header>
{top}
</header>
<main>
{body}
</main>
</body>
</html>
"""

_STYLE = """
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --ink: #1b2430; --soft: #566170; --line: #dde1e7; --accent: #1f5fa8;
}
@media (prefers-color-scheme: dark) {
  :root { --page: #12161c; --card: #1b2129; --ink: #e6eaf0; --soft: #9aa6b5; --line: #303945; --accent: #8ab8ee; }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 2.5rem 1.25rem 4rem; max-width: 62rem; background: var(--page); color: var(--ink);
  font: 1rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  overflow-wrap: break-word;
}
h1 { margin: 0; font-size: clamp(1.7rem, 5vw, 2.4rem); line-height: 1.2; letter-spacing: -0.015em; }
h2 { margin: 0 0 0.75rem; font-size: 1.3rem; line-height: 1.3; }
p { max-width: 44rem; margin: 0 0 1rem; }
.subtitle { margin: 0.4rem 0 0; color: var(--soft); font-size: 1.1rem; }
.facts {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(10rem, 1fr)); gap: 0.75rem; margin: 1.75rem 0 0;
}
.facts div {
  padding: 0.8rem 1rem; background: var(--card); border: 1px solid var(--line); border-top: 3px solid var(--accent);
  border-radius: 0.5rem;
}
.facts dt { color: var(--soft); font-size: 0.82rem; line-height: 1.3; }
.facts dd {
  margin: 0.2rem 0 0; font-size: 1.15rem; font-weight: 600; line-height: 1.3; font-variant-numeric: tabular-nums;
}
nav ul { display: flex; flex-wrap: wrap; gap: 0.35rem 1.25rem; margin: 1.5rem 0 0; padding: 0; list-style: none; }
a { color: var(--accent); text-underline-offset: 0.2em; }
main { margin-top: 2.25rem; }
section {
  margin: 0 0 1.5rem; padding: 1.5rem 1.5rem 0.75rem; background: var(--card); border: 1px solid var(--line);
  border-radius: 0.75rem;
}
figure { margin: 0.5rem 0 1.5rem; }
img {
  display: block; max-width: 100%; height: auto; padding: 0.5rem; background: #ffffff;
  border-radius: 0.4rem;
}
figcaption, caption { color: var(--soft); font-size: 0.92rem; line-height: 1.45; text-align: left; }
figcaption { max-width: 44rem; margin: 0.6rem 0 0; }
caption { padding: 0 0 0.5rem; }
.table { margin: 0.5rem 0 1.5rem; overflow-x: auto; }
table { min-width: 60%; border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td {
  padding: 0.45rem 1.25rem 0.45rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top;
}
th:last-child, td:last-child { padding-right: 0.25rem; }
thead th { border-bottom: 2px solid var(--soft); font-size: 0.88rem; white-space: nowrap; }
tbody th { font-weight: 500; }
td.number, th.number { text-align: right; white-space: nowrap; }
@media (max-width: 36rem) {
  body { padding: 1.5rem 0.75rem 3rem; }
  section { padding: 1.1rem 1rem 0.5rem; }
  .facts { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .facts dd { font-size: 1.05rem; }
}
@media (prefers-color-scheme: dark) { img { filter: brightness(0.92); } }
@media print {
  :root { --page: #ffffff; --card: #ffffff; --ink: #000000; --soft: #444444; --line: #bbbbbb; --accent: #1f5fa8; }
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  nav { display: none; }
  section { padding: 0; border: 0; }
  .table { overflow: visible; }
  h2 { break-after: avoid; }
  figure, tr, .facts div { break-inside: avoid; }
  img { padding: 0; filter: none; max-height: 22cm; width: auto; }
}
"""
