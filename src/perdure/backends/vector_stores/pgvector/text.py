"""Text as PostgreSQL can hold it: all of Unicode but U+0000 and lone surrogates, and no long text in a B-tree."""

from __future__ import annotations

import json
import re
from typing import Any

from perdure.backends.vector_stores.common.names import digest
from perdure.domain.scope import SCOPE_FIELDS

_LOW, _HIGH = "\x01", "\ue000"
"""Each stands before a character that stands for another: NUL and U+0001, lone surrogates and U+E000."""
_TO_ESCAPE = re.compile(f"[\x00{_LOW}{_HIGH}\ud800-\udfff]")
_ESCAPED = re.compile(f"{_LOW}([\x01\x02])|{_HIGH}(.)", re.DOTALL)
_CUT = f"{_LOW}\x03"
"""Stands in a key before the digest of a text that was too long for one."""

_SURROGATES = 0xD800
_SHIFT = _SURROGATES - 0x1000
_LAST = "\u2000"
"""Behind U+E000 it stands for that character itself; the surrogates' stand-ins come before it."""

_LONGEST_KEY = 1000
"""Bytes of an id or a time that are kept in a key: a B-tree takes some 2,700 a row."""
_LONGEST_SCOPE = 2000
"""Bytes of a scope value in an index, beside a time."""
_LONGEST_WORD = 64
"""Characters of a word in the index of words, which holds each of them whole."""

to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode
"""The JSON text of a value that was checked."""


def escape(text: str) -> str:
    """Text that PostgreSQL can hold, different for different texts and in the same order; most are left as they are."""
    return _TO_ESCAPE.sub(_stand_in, text)


def _stand_in(found: re.Match[str]) -> str:
    character = found[0]
    if character < "\x02":
        return _LOW + chr(ord(character) + 1)
    return _HIGH + (_LAST if character == _HIGH else chr(ord(character) - _SHIFT))


def unescape(text: str) -> str:
    """The text that `escape` was given."""
    return _ESCAPED.sub(_stood_for, text)


def _stood_for(found: re.Match[str]) -> str:
    if found[1]:
        return chr(ord(found[1]) - 1)
    return _HIGH if found[2] == _LAST else chr(ord(found[2]) + _SHIFT)


def key_text(text: str) -> str:
    """The text in a key: itself wherever it fits, otherwise its beginning and a digest."""
    key = escape(text)
    if len(key) * 4 <= _LONGEST_KEY:
        return key
    whole = key.encode()
    if len(whole) <= _LONGEST_KEY:
        return key
    # An escape that was cut in two would not be told from another.
    start = whole[: _LONGEST_KEY - 100].decode(errors="ignore").rstrip(_LOW + _HIGH)
    return f"{start}{_CUT}{digest(key, 20)}"


def fits_a_scope(value: str) -> bool:
    """Whether PostgreSQL can hold this value of a scope field as it is, and index it."""
    if value.isascii():
        return "\x00" not in value and len(value) <= _LONGEST_SCOPE
    try:
        return "\x00" not in value and len(value.encode()) <= _LONGEST_SCOPE
    except UnicodeEncodeError:
        return False


def word_key(stem: str) -> str:
    """A word in the index of words: itself, or a digest where it is very long."""
    return stem if len(stem) <= _LONGEST_WORD else f"#{digest(stem, 16)}"


def payload_json(record: str) -> str:
    """The payload of a record as JSONB can hold it.

    It differs from the record's only in what PostgreSQL cannot hold: such characters are replaced by visible ones, and
    a scope value that cannot be held or indexed is left out, lest it be taken for another's.
    """
    payload: dict[str, Any] = json.loads(record)[1]
    unfit = [name for name in SCOPE_FIELDS if isinstance(payload.get(name), str) and not fits_a_scope(payload[name])]
    for name in unfit:
        del payload[name]
    text = to_json(payload)
    if not _is_sound(text):
        text = to_json(_legible_object(payload))
    return text


def _is_sound(json_text: str) -> bool:
    if "\\u0000" in json_text:
        return False
    try:
        return json_text.isascii() or bool(json_text.encode())
    except UnicodeEncodeError:
        return False


def _legible(value: Any) -> Any:
    if isinstance(value, str):
        return _legible_text(value)
    if isinstance(value, list):
        return [_legible(element) for element in value]
    return _legible_object(value) if isinstance(value, dict) else value


def _legible_object(value: dict[str, Any]) -> dict[str, Any]:
    """A key that had to be changed never stands for another."""
    copy = {key: _legible(element) for key, element in value.items() if _legible_text(key) == key}
    for key, element in value.items():
        copy.setdefault(_legible_text(key), _legible(element))
    return copy


def _legible_text(text: str) -> str:
    return text.replace("\x00", "\u2400").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
