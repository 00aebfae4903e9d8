"""A schema as plain values for JSON, and back with every entry checked: people edit these files."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from dlgm.data.errors import SchemaError
from dlgm.data.schema.column import Column
from dlgm.names import closest

NAME = "v"  # columns without names are v0, v1, ..
_ENTRIES = {field.name for field in dataclasses.fields(Column)} | {"repeat"}
_NUMBERS = ("center", "scale", "power", "shift", "spread", "low", "high")
_TEXTS = ("name", "kind", "family", "dtype")


def generated_names(number: int) -> list[str]:
    """Names for columns that have none."""
    return [f"{NAME}{i}" for i in range(number)]


def entries_of(columns: Sequence[Column]) -> list[dict[str, Any]]:
    """An entry a column; one with `repeat` for an array whose columns differ in their number only."""
    alike = {dataclasses.replace(column, name=NAME) for column in columns}
    if len(columns) > 1 and len(alike) == 1 and [c.name for c in columns] == generated_names(len(columns)):
        return [{**_entry(alike.pop()), "repeat": len(columns)}]
    return [_entry(column) for column in columns]


def _entry(column: Column) -> dict[str, Any]:
    known = {name: value for name, value in vars(column).items() if value is not None}
    return known | ({"categories": list(column.categories)} if column.categories is not None else {})


def columns_from_entries(described: Any) -> tuple[Column, ...]:
    """The columns of `{"version": 1, "columns": [..]}`."""
    if not isinstance(described, Mapping):
        raise SchemaError(f"Expected a schema, an object with the entry `columns`; got {type(described).__name__}.")
    for entry in described:
        if entry not in ("version", "columns"):
            raise SchemaError(f"Unknown entry {entry!r} in the schema; it takes version and columns.")
    if described.get("version", 1) != 1:
        raise SchemaError(f"Expected a schema of version 1; got {described['version']!r}.")
    entries = described.get("columns")
    if not isinstance(entries, list) or not entries:
        raise SchemaError("Expected the schema's entry `columns` to be a list of at least one column.")
    return tuple(column for i, entry in enumerate(entries) for column in _columns(f"columns[{i}]", entry))


def _columns(place: str, entry: Any) -> list[Column]:
    if not isinstance(entry, Mapping):
        raise SchemaError(f"{place}: expected an object with name and kind; got {entry!r}.")
    place = f"{place} ({entry['name']!r})" if isinstance(entry.get("name"), str) else place
    for name in entry:
        if name not in _ENTRIES:
            raise SchemaError(f"{place}: unknown entry {name!r}.{closest(str(name), _ENTRIES)}")
    for name in ("name", "kind"):
        if name not in entry:
            raise SchemaError(f"{place}: expected an entry {name!r}; there is none.")
    known = {name: _value(place, name, value) for name, value in entry.items() if value is not None}
    repeat = known.pop("repeat", None)
    try:
        column = Column(**known)
    except SchemaError as error:
        raise SchemaError(f"{place}: {str(error).removeprefix(f'column {column_name(known)!r}: ')}") from None
    if repeat is None:
        return [column]
    return [dataclasses.replace(column, name=f"{column.name}{i}") for i in range(repeat)]


def column_name(known: Mapping[str, Any]) -> str:
    """The name in an entry that has been checked."""
    return str(known["name"])


def _value(place: str, name: str, value: Any) -> Any:
    """An entry's value, of the type that its name asks for."""
    if name in _TEXTS:
        if not isinstance(value, str) or not value:
            raise SchemaError(f"{place}: expected {name} to be a text; got {value!r}.")
        return value
    if name in _NUMBERS:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise SchemaError(f"{place}: expected {name} to be a number; got {value!r}.")
        return float(value)
    if name == "whole":
        if not isinstance(value, bool):
            raise SchemaError(f"{place}: expected whole to be true or false; got {value!r}.")
        return value
    if name == "repeat":
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 10_000_000:
            raise SchemaError(f"{place}: expected repeat to be a whole number of at least 1; got {value!r}.")
        return value
    if not isinstance(value, list) or not all(isinstance(entry, str | bool | int | float) for entry in value):
        raise SchemaError(f"{place}: expected categories to be a list of texts or numbers; got {value!r}.")
    return tuple(value)
