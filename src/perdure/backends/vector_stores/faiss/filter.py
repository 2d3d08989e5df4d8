"""Filters as SQL over a row r of the rows beside a FAISS index; `{c}` stands for the collection's number.

Tokens are probed row by row where a scope leaves few rows, and looked up all at once where nothing else does.
"""

# ruff: noqa: S608  (only our own names are written into SQL; every value is bound)

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

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


class FaissGrammar(Grammar[Sql]):
    """Clauses with fewer values than a statement of SQLite takes."""

    most_values = 200
    most_clauses = 100

    def one_of(self, tokens: Sequence[str]) -> Sql:
        """Rows that have one of these tokens."""
        return _in_table("tokens", f"token IN ({_marks(tokens)})", tuple(bytes.fromhex(token) for token in tokens))

    def none_of(self, tokens: Sequence[str]) -> Sql:
        """Rows that have none of these tokens."""
        some = self.one_of(tokens)
        return Sql(f"NOT {some.probing}", f"NOT {some.looking_up}", some.values)

    def every(self, clauses: Sequence[Sql]) -> Sql:
        """Rows that satisfy all clauses."""
        return _joined(" AND ", clauses, scoped=any(clause.scoped for clause in clauses))

    def some(self, clauses: Sequence[Sql]) -> Sql:
        """Rows that satisfy one of the clauses."""
        return _joined(" OR ", clauses, scoped=all(clause.scoped for clause in clauses))

    def scope_is(self, field: str, values: Sequence[str]) -> Sql:
        """Rows whose scope field is one of these texts."""
        text = f"r.{field} IN ({_marks(values)})"
        return Sql(text, text, tuple(map(key, values)), scoped=True)

    def scope_is_not(self, field: str, values: Sequence[str]) -> Sql:
        """Rows whose scope field is none of these texts, or missing."""
        text = f"(r.{field} IS NULL OR r.{field} NOT IN ({_marks(values)}))"
        return Sql(text, text, tuple(map(key, values)))

    def between(self, span: Span) -> Sql:
        """Rows inside the span."""
        bounds = [(sign, bound) for sign, bound in ((">=", span.low), ("<=", span.high)) if bound is not None]
        values = [float(bound) if span.kind == "number" else int(bound) for _, bound in bounds]
        condition = " AND ".join(["path = ?", *(f"value {sign} ?" for sign, _ in bounds)])
        return _in_table("spans", condition, (span_key(span.kind, span.path), *values))

    def holds(self, field: str, text: str, *, ignore_case: bool) -> Sql | None:
        """Rows whose record has the text somewhere, as JSON writes it."""
        if ignore_case:
            return None
        return Sql("instr(r.record, ?) > 0", "instr(r.record, ?) > 0", (json.dumps(text)[1:-1],))


def span_key(kind: str, path: str) -> bytes:
    """The key of a number or moment in the table of spans."""
    return key(f"{kind}:{path}")


def _in_table(table: str, condition: str, values: tuple[str | bytes | int | float, ...]) -> Sql:
    return Sql(
        f"EXISTS (SELECT 1 FROM {table}_{{c}} WHERE n = r.n AND {condition})",
        f"r.n IN (SELECT n FROM {table}_{{c}} WHERE {condition})",
        values,
    )


def _joined(word: str, clauses: Sequence[Sql], *, scoped: bool) -> Sql:
    return Sql(
        f"({word.join(clause.probing for clause in clauses)})",
        f"({word.join(clause.looking_up for clause in clauses)})",
        tuple(value for clause in clauses for value in clause.values),
        scoped,
    )


def _marks(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))
