"""Relations that change hands: "Bob replaced Alice as lead", "Bob took over fundraising from Alice"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from perdure.domain.pattern import Pattern
from perdure.pipeline.relate.grounds import Thing, head, read_thing
from perdure.pipeline.relate.names import NAME, trimmed
from perdure.pipeline.relate.roles import Role, read_role
from perdure.pipeline.relate.stated import BEGINS, ENDS, FUTURE, Tie

_ROLE = r"as (?P<role>.+)"
_REPLACED = Pattern(
    rf"(?P<verb>replaced|succeeded|has replaced|has succeeded|will replace|will succeed|replaces|succeeds|"
    rf"took over from|takes over from|has taken over from|will take over from) (?P<other>{NAME}) {_ROLE}"
)
_WAS_REPLACED = Pattern(
    rf"(?P<verb>was|has been|is|will be) (?:being )?(?:replaced|succeeded) by (?P<other>{NAME}) {_ROLE}"
)
_TOOK_ROLE = Pattern(rf"(?P<verb>took over|takes over|has taken over|will take over) {_ROLE} from (?P<other>{NAME})")
_TOOK = Pattern(
    rf"(?P<verb>took over|takes over|has taken over|will take over) (?P<thing>.+?)(?: from (?P<other>{NAME}))?"
)
_HANDED = Pattern(
    rf"(?P<verb>handed|hands|has handed|will hand|passed) (?:over )?(?P<thing>.+?) (?:over |on )?to (?P<other>{NAME})"
)


def read_succession(subject: str, predicate: str, *, about: Mapping[str, str]) -> Iterator[tuple[Tie, str, bool]]:
    """Who held it until then, and who holds it from then on; what is told, and whether only with a date."""
    if (found := _REPLACED.fullmatch(predicate) or _TOOK_ROLE.fullmatch(predicate)) is not None:
        role = read_role(found["role"], about=about)
        yield from _change(trimmed(found["other"]), subject, role, found["verb"])
    elif (found := _WAS_REPLACED.fullmatch(predicate)) is not None:
        role = read_role(found["role"], about=about)
        yield from _change(subject, trimmed(found["other"]), role, found["verb"])
    elif (found := _TOOK.fullmatch(predicate)) is not None:
        yield from _change(trimmed(found["other"] or ""), subject, _post(found["thing"], about), found["verb"])
    elif (found := _HANDED.fullmatch(predicate)) is not None:
        yield from _change(subject, trimmed(found["other"]), _post(found["thing"], about), found["verb"])


def _post(words: str, about: Mapping[str, str]) -> Role | None:
    """What is handed over: a post, or something to lead."""
    role = read_role(re.sub(r" (?:role|position|post|job)$", "", words), about=about)
    if role is not None:
        return role
    thing = read_thing(head(words), "ground")
    if thing is None or thing.type not in ("project", "organization", "concept", "product") or thing.name[0].isupper():
        return None  # "took over Acme": a purchase
    return Role("leads", thing, "in")


def _change(before: str, after: str, role: Role | None, verb: str) -> Iterator[tuple[Tie, str, bool]]:
    if role is None or role.target.name in (before, after):
        return
    future = verb.startswith("will")
    if before:
        yield Tie.by_role(Thing(before, "person"), role, "succession"), ENDS, future
    yield Tie.by_role(Thing(after, "person"), role, "succession"), FUTURE if future else BEGINS, future
