"""Filters as Milvus expressions, in the common grammar of Milvus 2.5 and later and Milvus Lite 3.

No caller's value is part of an expression: scope values are reduced to a safe alphabet or to a digest, everything else
is a token or a number. (Milvus Lite has no expression templates.) Fields are never null, because the two engines treat
`not` of unknown differently.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import partial

from perdure.backends.vector_stores.common.documents import digest
from perdure.backends.vector_stores.common.filter_clauses import BARE, Grammar, Span, moment_mark, number_mark
from perdure.domain.filter import TIME_FIELDS

NO_TIME = -(2**62)  # stands in a time field of a row that has no such time
EARLIEST = -(2**61)  # below every moment that a row can have, above NO_TIME
TOO_LONG = "~"  # stands for a memory that is longer than a text field of Milvus
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.@:+-]{0,199}")
_WORDS = re.compile(r"[A-Za-z0-9 ]{1,200}")


def scope_text(value: str) -> str:
    """Return the text for a scope value: itself if plain, else a digest; never "", which means none."""
    return value if _PLAIN.fullmatch(value) else f"~{digest(value, 20)}"


def time_field(path: str) -> str:
    """Return the field with the microseconds of a path of TIME_FIELDS."""
    return f"{path}_us"


def _listed(texts: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{text}"' for text in texts) + "]"


def _tokens(tokens: Sequence[str], *, has: bool = True) -> str:
    if list(tokens) == [BARE]:
        return f"bare == {str(has).lower()}"
    any_of = f"array_contains_any(tokens, {_listed(tokens)})"
    return any_of if has else f"(not {any_of})"


def _every(clauses: Sequence[str]) -> str:
    return f"({' and '.join(clauses)})"


def _scope(field: str, values: Sequence[str], *, one: str, many: str) -> str:
    texts = [scope_text(value) for value in values]
    return f'{field} {one} "{texts[0]}"' if len(texts) == 1 else f"{field} {many} {_listed(texts)}"


def _between(span: Span) -> str | None:
    if span.path in TIME_FIELDS:
        if span.kind != "moment":
            return None
        name = time_field(span.path)
        low: float | None = EARLIEST if span.low is None else span.low
    else:
        mark = moment_mark(span.path) if span.kind == "moment" else number_mark(span.path)
        name = f'ranges["{mark}"]'
        low = span.low
    sides = [
        f"{name} {sign} {int(bound) if span.kind == 'moment' else repr(float(bound))}"
        for sign, bound in ((">=", low), ("<=", span.high))
        if bound is not None and math.isfinite(bound)
    ]
    return " and ".join(sides) if len(sides) < 2 else _every(sides)


def _holds(field: str, text: str, ignore_case: bool) -> str | None:
    """Match rows whose memory contains this text, or is too long to be compared; patterns only of plain words."""
    if field != "memory" or ignore_case or not _WORDS.fullmatch(text):
        return None
    return f'(memory like "%{text}%" or memory == "{TOO_LONG}")'


GRAMMAR = Grammar[str](
    one_of=_tokens,
    none_of=partial(_tokens, has=False),
    every=_every,
    some=lambda clauses: f"({' or '.join(clauses)})",
    scope_is=partial(_scope, one="==", many="in"),
    scope_is_not=partial(_scope, one="!=", many="not in"),
    between=_between,
    holds=_holds,
)
"""Tokens in an array, scopes and times in fields of their own, other numbers and moments in one JSON field."""
