"""Which rows a read sees: those of the scope, of the present or of an earlier moment, that have not run out."""

from __future__ import annotations

from datetime import datetime

from perdure.domain.clock import iso
from perdure.domain.filter import And, Condition, Filter, Moment, Not, all_of, eq, scope_filter
from perdure.domain.memory import LIVE, VERSION
from perdure.domain.scope import Scope

TRUSTED = Not(Condition("quarantined", "gte", ""))
"""Memories that may enter a prompt: there is no reason to keep them out."""


def visible(
    scope: Scope,
    *,
    now: datetime,
    kinds: tuple[str, ...] = ("facts",),
    as_of: datetime | None = None,
    include_past: bool = False,
    filters: Filter | None = None,
    state: str = LIVE,
) -> And:
    """The filter of a read, of rows that stand now unless `state` or `as_of` says otherwise; without kinds, of any.

    With `as_of`, rows that had been told by then and not yet replaced, versions included (DESIGN §5); what is past its
    `valid_to` or `expires_at` at that moment (else now) is left out unless `include_past`.
    """
    kind: Filter | None = None
    if kinds:
        kind = eq("kind", kinds[0]) if len(kinds) == 1 else Condition("kind", "in", kinds)
    moment = Moment(iso(as_of or now))
    parts: list[Filter | None] = [scope_filter(scope), kind]
    if as_of is None:
        parts.append(eq("state", state))
    else:
        parts += [
            Condition("state", "in", (LIVE, VERSION)),
            Condition("told_at", "lte", moment),
            Not(Condition("untold_at", "lte", moment)),
        ]
    if not include_past:
        parts += [Not(Condition("valid_to", "lte", moment)), Not(Condition("expires_at", "lte", moment))]
    parts.append(filters)
    return all_of(*parts)
