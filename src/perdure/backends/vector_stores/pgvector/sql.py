"""Text as PostgreSQL can store it, and filters as WHERE clauses; values are always parameters."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, LiteralString

from perdure.backends.vector_stores.common.documents import digest
from perdure.backends.vector_stores.common.filter_clauses import Grammar, Span
from perdure.domain.filter import RECORD_FIELDS, TIME_FIELDS
from perdure.domain.scope import SCOPE_FIELDS
from perdure.domain.text.readable import is_unicode

_LOW, _HIGH = "\x01", "\ue000"
"""Each stands before a character that stands for another: NUL and U+0001, lone surrogates and U+E000."""
_TO_ESCAPE = re.compile(f"[\x00{_LOW}{_HIGH}\ud800-\udfff]")
_ESCAPED = re.compile(f"{_LOW}([\x01\x02])|{_HIGH}(.)", re.DOTALL)
_CUT = f"{_LOW}\x03"  # stands in a key before the digest of a text that was too long for one
_SURROGATES = 0xD800
_SHIFT = _SURROGATES - 0x1000
_LAST = "\u2000"  # behind U+E000 it stands for that character itself; the surrogates' stand-ins come before it
_LONGEST_KEY = 1000  # bytes of an id or a time that are kept in a key: a B-tree takes some 2,700 a row
_LONGEST_SCOPE = 2000  # bytes of a scope value in an index, beside a time
_LONGEST_WORD = 64  # characters of a word in the index of words, which holds each of them whole
to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode
"""The JSON text of a value that was checked."""


def escape(text: str) -> str:
    """Return text that PostgreSQL can store, distinct and in the same order; mostly unchanged."""
    return _TO_ESCAPE.sub(_stand_in, text)


def _stand_in(found: re.Match[str]) -> str:
    character = found[0]
    if character < "\x02":
        return _LOW + chr(ord(character) + 1)
    return _HIGH + (_LAST if character == _HIGH else chr(ord(character) - _SHIFT))


def unescape(text: str) -> str:
    return _ESCAPED.sub(_stood_for, text)


def _stood_for(found: re.Match[str]) -> str:
    if found[1]:
        return chr(ord(found[1]) - 1)
    return _HIGH if found[2] == _LAST else chr(ord(found[2]) + _SHIFT)


def key_text(text: str) -> str:
    """Return the text for a key: itself if it fits, else its beginning and a digest."""
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
    """Whether PostgreSQL can store and index this scope value unchanged."""
    if value.isascii():
        return "\x00" not in value and len(value) <= _LONGEST_SCOPE
    try:
        return "\x00" not in value and len(value.encode()) <= _LONGEST_SCOPE
    except UnicodeEncodeError:
        return False


def word_key(stem: str) -> str:
    """Return a word for the word index: itself, or a digest if it is very long."""
    return stem if len(stem) <= _LONGEST_WORD else f"#{digest(stem, 16)}"


def payload_json(record: str) -> str:
    """Return the payload of a record as JSONB can store it.

    Unsupported characters are replaced by visible ones, and a scope value that cannot be stored or indexed is left out,
    so that it is not mistaken for another.
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
    """Return an object without changed keys, which could be mistaken for others."""
    copy = {key: _legible(element) for key, element in value.items() if _legible_text(key) == key}
    for key, element in value.items():
        copy.setdefault(_legible_text(key), _legible(element))
    return copy


def _legible_text(text: str) -> str:
    return text.replace("\x00", "\u2400").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@dataclass(frozen=True, slots=True)
class Clause:
    """An SQL condition and the values of its placeholders, in order."""

    sql: LiteralString
    values: tuple[object, ...] = ()
    unindexed: LiteralString = ""
    """The same in words that no index answers, where an index could; for rows of a scope, which has its own."""
    scoped: bool = False  # whether only rows of one scope satisfy it


def _joined(word: LiteralString, clauses: Sequence[Clause]) -> Clause:
    return Clause(
        f"({word.join(clause.sql for clause in clauses)})",
        tuple(value for clause in clauses for value in clause.values),
        f"({word.join(clause.unindexed or clause.sql for clause in clauses)})",
    )


def every(clauses: Sequence[Clause]) -> Clause:
    """Combine clauses; if one is a scope, its index finds the rows and the others filter these."""
    if not any(clause.scoped for clause in clauses):
        return _joined(" AND ", clauses)
    inside = [Clause(clause.unindexed or clause.sql, clause.values) for clause in clauses]
    return replace(_joined(" AND ", inside), scoped=True)


def _scope_is(field: str, values: Sequence[str]) -> Clause | None:
    """Match scope fields, which are indexed as `payload->>'field'`."""
    if not all(map(fits_a_scope, values)):
        return None
    if len(values) == 1:
        return Clause(f"payload->>'{field}' = %s", (values[0],), scoped=True)
    return Clause(f"payload->>'{field}' = ANY(%s::text[])", (list(values),), scoped=True)


def _scope_is_not(field: str, values: Sequence[str]) -> Clause | None:
    """Match rows with another value, or without the field."""
    if not all(map(fits_a_scope, values)):
        return None
    return Clause(f"(payload->>'{field}' = ANY(%s::text[])) IS NOT TRUE", (list(values),))


def _between(span: Span) -> Clause:
    """Match rows by their numbers and times, stored by path."""
    column: LiteralString = "numbers" if span.kind == "number" else "moments"
    if span.path in TIME_FIELDS:
        place, values = f"({column}->'{span.path}')::float8", []
    else:
        place, values = f"({column}->%s::text)::float8", [escape(span.path)]
    if span.high is None:
        return Clause(f"{place} >= %s", (*values, span.low))
    if span.low is None:
        return Clause(f"{place} <= %s", (*values, span.high))
    return Clause(f"{place} BETWEEN %s AND %s", (*values, span.low, span.high))


def _holds(field: str, text: str, ignore_case: bool) -> Clause | None:
    """Match rows whose own field contains the text, and all lists, whose elements count one by one.

    Text beyond ASCII matches always, because Python and PostgreSQL fold case differently.
    """
    if field not in RECORD_FIELDS or "\x00" in text or not is_unicode(text):
        return None
    held: LiteralString = f"payload->>'{field}'"
    listed: LiteralString = f"jsonb_typeof(payload->'{field}') = 'array'"
    if not ignore_case:
        return Clause(f"({listed} OR strpos({held}, %s) > 0)", (text,))
    beyond: LiteralString = f"octet_length({held}) <> char_length({held})"
    return Clause(f'({listed} OR {beyond} OR strpos(lower({held} COLLATE "C"), %s) > 0)', (text.casefold(),))


GRAMMAR = Grammar[Clause](
    # `&&` asks the GIN index, but inside a scope: there it would read everybody's rows (54 times as long).
    one_of=lambda tokens: Clause("tokens && %s::text[]", (list(tokens),), "(tokens && %s::text[]) IS TRUE"),
    none_of=lambda tokens: Clause("NOT tokens && %s::text[]", (list(tokens),)),  # every row has tokens: never NULL
    every=every,
    some=partial(_joined, " OR "),
    scope_is=_scope_is,
    scope_is_not=_scope_is_not,
    between=_between,
    holds=_holds,
    most_values=5000,
)
