"""Kinds and orders as they are asked for at the command line: `age=count`, `pixel`, `size=S,M,L`."""

import csv
from collections.abc import Sequence

from dlgm.data.errors import SchemaError
from dlgm.data.schema.column import KINDS
from dlgm.data.schema.infer import EVERY
from dlgm.names import closest


def parse_types(asked: Sequence[str]) -> dict[str, str]:
    """Kinds by column name, from `NAME=KIND`, or `KIND` alone for every column.

    >>> parse_types(["age=count", "pay=gross=positive"])
    {'age': 'count', 'pay=gross': 'positive'}
    """
    types = {}
    for text in asked:
        name, equals, kind = text.rpartition("=")
        if kind not in KINDS or (equals and not name):
            raise SchemaError(
                f"Expected NAME=KIND with a kind of {', '.join(KINDS)}; got {text!r}.{closest(kind, KINDS)}"
            )
        types[name or EVERY] = kind
    return types


def parse_ordinal(asked: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Categories in order by column name, from `NAME=FIRST,SECOND,..`; a category with a comma goes into quotes.

    >>> parse_ordinal(['size=S,M,"L, or more"'])
    {'size': ('S', 'M', 'L, or more')}
    """
    orders = {}
    for text in asked:
        name, _, values = text.partition("=")
        categories = next(csv.reader([values], skipinitialspace=True), [])
        if not name or len(categories) < 2:
            raise SchemaError(f"Expected NAME=LOWEST,..,HIGHEST, such as size=S,M,L; got {text!r}.")
        orders[name] = tuple(categories)
    return orders
