"""Tags and names as text in which one of them can be found whole."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Column, ColumnElement, Connection, func, or_

from perdure.backends.ledgers._rows import encode


def encode_tags(tags: Sequence[str], field: str) -> str:
    """The tags as a JSON list; InvalidInputError names the field if one is no text that can be kept."""
    return f"[{','.join(_piece(tag, field) for tag in tags)}]"


def _piece(tag: str, field: str) -> str:
    """A tag as JSON, its own brackets and commas escaped.

    So a bracket or a comma before a quote is always the list's, and the quote begins a tag. Without that, `,` would be
    found in `["[",":"]`. The database's own JSON would do but for SQLite, whose texts end at a NUL.
    """
    return encode(tag, field).replace("[", "\\u005b").replace(",", "\\u002c")


def has_tag(connection: Connection, column: Column[str], tag: str) -> ColumnElement[bool]:
    """That the list in a column has this tag."""
    place = func.instr if connection.dialect.name == "sqlite" else func.strpos
    piece = _piece(tag, column.name)
    return or_(place(column, f"[{piece}") > 0, place(column, f",{piece}") > 0)
