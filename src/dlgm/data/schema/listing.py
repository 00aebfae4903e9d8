"""A schema as a table to be read by people."""

import dataclasses
from collections.abc import Sequence
from itertools import groupby

import numpy as np
from jaxtyping import Bool

from dlgm.data.schema.cells import shown
from dlgm.data.schema.column import Column
from dlgm.data.schema.entries import generated_names
from dlgm.data.schema.schema import Schema

HEADINGS = ("column", "kind", "family", "missing", "values")
_MANY = 20  # more columns than that, without names of their own, are shown together where they are alike


def listing(schema: Schema, mask: Bool[np.ndarray, "n x"] | None) -> list[tuple[str, ...]]:
    """A line a column, under `HEADINGS`; one for many columns of an array that are alike."""
    missing = np.zeros(len(schema.columns)) if mask is None else 1 - mask.mean(axis=0)
    numbered = list(enumerate(schema.columns))
    together = len(numbered) > _MANY and schema.names == generated_names(len(numbered))
    groups = groupby(numbered, lambda pair: _alike(pair[1]) if together else pair[0])
    return [_line([c for _, c in own], missing[[i for i, _ in own]]) for own in (list(group) for _, group in groups)]


def _alike(column: Column) -> Column:
    return dataclasses.replace(column.without_units(), name="")


def _line(columns: Sequence[Column], missing: np.ndarray) -> tuple[str, ...]:
    first, last = columns[0], columns[-1]
    name = first.name if len(columns) == 1 else f"{first.name} .. {last.name}"
    return (name, first.kind, first.family or "", f"{missing.mean():.1%}" if missing.any() else "", _values(columns))


def _values(columns: Sequence[Column]) -> str:
    first = columns[0]
    if first.categories is not None:
        names = [value if isinstance(value, str) else str(value) for value in first.categories]
        return ", ".join(names[:6]) + (f", .. ({len(names)} in all)" if len(names) > 6 else "")
    if len(columns) == 1 and first.low is not None and first.low == first.high:
        return f"always {shown(first.low)}"
    words = []
    if first.kind == "heaped":
        heap, scale = (_range([getattr(c, name) or 0.0 for c in columns]) for name in ("center", "scale"))
        away = "about" if first.family == "heaped-log-normal" else "with a standard deviation of"
        return f"heap at {heap}, others {away} {scale}" + (" away" if away == "about" else "")
    if first.center is not None:
        words.append(f"mean {_range([c.center or 0.0 for c in columns])}")
    if first.scale is not None:
        label = "standard deviation" if first.kind == "real" else "geometric mean"
        words.append(f"{label} {_range([c.scale or 1.0 for c in columns])}")
    if first.power is not None:
        words.append(f"power {_range([1.0 if c.power is None else c.power for c in columns])}")
    return ", ".join(words)


def _range(numbers: Sequence[float]) -> str:
    low, high = (shown(float(f"{number:.3g}")) for number in (min(numbers), max(numbers)))
    return low if low == high else f"{low} to {high}"
