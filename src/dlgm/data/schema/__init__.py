"""What a user's table holds: the kind of each column, and its cells in and out of the numbers that a model sees."""

from dlgm.data.schema.asked import parse_ordinal, parse_types
from dlgm.data.schema.column import KINDS, Column
from dlgm.data.schema.file import read_schema, write_schema
from dlgm.data.schema.infer import infer_schema, schema_of_kind
from dlgm.data.schema.listing import HEADINGS, listing
from dlgm.data.schema.schema import Schema

__all__ = [
    "HEADINGS",
    "KINDS",
    "Column",
    "Schema",
    "infer_schema",
    "listing",
    "parse_ordinal",
    "parse_types",
    "read_schema",
    "schema_of_kind",
    "write_schema",
]
