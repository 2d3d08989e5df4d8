"""Text as PostgreSQL can hold it: all of Unicode but U+0000, for which a pair of characters stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg.types.string import StrDumperUnknown, TextLoader

if TYPE_CHECKING:
    from typing import Any

    from psycopg import Connection
    from psycopg.abc import Buffer

_MARK = "\x1a"
"""U+001A, named SUBSTITUTE: what stands in for a character that cannot be represented. Followed by a digit here."""


def escape(text: str) -> str:
    """Text without NUL, different for different texts."""
    if _MARK in text:
        text = text.replace(_MARK, f"{_MARK}1")
    return text.replace("\x00", f"{_MARK}0") if "\x00" in text else text


def unescape(text: str) -> str:
    """The text that `escape` was given."""
    if _MARK not in text:
        return text
    return text.replace(f"{_MARK}0", "\x00").replace(f"{_MARK}1", _MARK)


class _Dumper(StrDumperUnknown):
    def dump(self, obj: str) -> Buffer | None:
        return super().dump(escape(obj))


class _Loader(TextLoader):
    def load(self, data: Buffer) -> bytes | str:
        text = super().load(data)
        return unescape(text) if isinstance(text, str) else text


def hold_any_text(connection: Connection[Any]) -> None:
    """Let every text through this connection, there and back."""
    connection.adapters.register_dumper(str, _Dumper)
    connection.adapters.register_loader("text", _Loader)
