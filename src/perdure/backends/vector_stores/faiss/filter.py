"""Filters as SQL over a row r of the rows beside a FAISS index; `{c}` stands for the collection's number.

Tokens are probed row by row where a scope leaves few rows, and looked up all at once where nothing else does.
"""

# ruff: noqa: S608  (only our own names are written into SQL; every value is bound)

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from perdure.backends.vector_stores.common.filter_clauses import Grammar, Span


@dataclass(frozen=True, slots=True)
class Sql:
    """A condition that is true or not, in two ways of writing with the same placeholders, and their values."""

    probing: str
    looking_up: str
    values: tuple[str | bytes | int | float, ...] = ()
    scoped: bool = False
    """Whether it holds only inside given scopes."""

    def text(self, collection: int) -> str:
        """The way of writing that reads fewer rows."""
        return (self.probing if self.scoped else self.looking_up).replace("{c}", str(collection))


def key(text: str) -> bytes:
    """The text as bytes that sort by code points; lone surrogates, which SQLite's text cannot hold, included."""
    return text.encode("utf-8", "surrogatepass")


def _in_table(table: str, condition: str, values: tuple[str | bytes | int | float, ...], *, has: bool = True) -> Sql:
    """Rows that have an entry of the table under the condition, or have none."""
    no = "" if has else "NOT "
    return Sql(
        f"{no}EXISTS (SELECT 1 FROM {table}_{{c}} WHERE n = r.n AND {condition})",
        f"{no}r.n IN (SELECT n FROM {table}_{{c}} WHERE {condition})",
        values,
    )


def _tokens(tokens: Sequence[str], *, has: bool = True) -> Sql:
    return _in_table("tokens", f"token IN ({_marks(tokens)})", tuple(map(bytes.fromhex, tokens)), has=has)


def _joined(word: str, clauses: Sequence[Sql], *, scoped: bool) -> Sql:
    return Sql(
        f"({word.join(clause.probing for clause in clauses)})",
        f"({word.join(clause.looking_up for clause in clauses)})",
        tuple(value for clause in clauses for value in clause.values),
        scoped,
    )


def _marks(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))


def _plain(text: str, *values: str | bytes, scoped: bool = False) -> Sql:
    return Sql(text, text, values, scoped)


def _between(span: Span) -> Sql:
    bounds = [(sign, bound) for sign, bound in ((">=", span.low), ("<=", span.high)) if bound is not None]
    values = [float(bound) if span.kind == "number" else int(bound) for _, bound in bounds]
    condition = " AND ".join(["path = ?", *(f"value {sign} ?" for sign, _ in bounds)])
    return _in_table("spans", condition, (span_key(span.kind, span.path), *values))


def _holds(field: str, text: str, ignore_case: bool) -> Sql | None:
    """Rows whose record has the text somewhere, as JSON writes it."""
    return None if ignore_case else _plain("instr(r.record, ?) > 0", json.dumps(text)[1:-1])


def span_key(kind: str, path: str) -> bytes:
    """The key of a number or moment in the table of spans."""
    return key(f"{kind}:{path}")


GRAMMAR = Grammar[Sql](
    one_of=_tokens,
    none_of=partial(_tokens, has=False),
    every=lambda clauses: _joined(" AND ", clauses, scoped=any(clause.scoped for clause in clauses)),
    some=lambda clauses: _joined(" OR ", clauses, scoped=all(clause.scoped for clause in clauses)),
    scope_is=lambda field, values: _plain(f"r.{field} IN ({_marks(values)})", *map(key, values), scoped=True),
    scope_is_not=lambda field, values: _plain(
        f"(r.{field} IS NULL OR r.{field} NOT IN ({_marks(values)}))", *map(key, values)
    ),
    between=_between,
    holds=_holds,
    most_values=200,  # fewer than a statement of SQLite takes
    most_clauses=100,
)
