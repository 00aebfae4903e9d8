"""Schemas in JSON files."""

import json
from pathlib import Path

from dlgm.data.errors import DataNotFoundError, SchemaError
from dlgm.data.schema.schema import Schema
from dlgm.files import to_json, write_atomically


def read_schema(path: str | Path) -> Schema:
    """The schema in a JSON file; what is wrong with one is said with the file's name and the entry's."""
    path = Path(path)
    try:
        described = json.loads(path.read_text("utf-8-sig"))
    except FileNotFoundError:
        raise DataNotFoundError(
            f"{path}: no such schema file. `dlgm data show FILE --out {path}` writes one."
        ) from None
    except UnicodeDecodeError as error:
        raise SchemaError(f"{path}: expected a JSON file in UTF-8; byte {error.start} is not.") from None
    except json.JSONDecodeError as error:
        raise SchemaError(f"{path}: line {error.lineno}: expected JSON; {error.msg}.") from None
    try:
        return Schema.from_dict(described)
    except SchemaError as error:
        raise SchemaError(f"{path}: {error}") from None


def write_schema(path: str | Path, schema: Schema) -> None:
    """Write a schema for people to read and edit, whole or not at all."""
    write_atomically(Path(path), f"{to_json(schema.to_dict())}\n".encode())
