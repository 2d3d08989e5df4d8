"""Chains of responses as the ledger keeps them: what went in and came out, never what memory put into a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perdure.domain.clock import iso, system_clock
from perdure.domain.scope import Scope
from perdure.domain.session import Link
from perdure.frontends.gateway.responses.items import CALLS, OUTPUTS, Item, kind_of

_HEAD = "perdure.response"
"""The type of a link's first item: the response object without its output, and how many items went in."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One response that was kept."""

    link: Link

    @property
    def inputs(self) -> list[Item]:
        """What went in."""
        head, items = self._split()
        return items[: head["inputs"]] if head else []

    @property
    def outputs(self) -> list[Item]:
        """What came out."""
        head, items = self._split()
        return items[head["inputs"] :] if head else []

    @property
    def items(self) -> list[Item]:
        """Both; none once something of it was forgotten."""
        return self._split()[1]

    @property
    def response(self) -> dict[str, Any] | None:
        """The response object; None where it is an upstream's own, or was forgotten."""
        head, _ = self._split()
        return {**head["response"], "output": self.outputs} if head and head["response"] else None

    def _split(self) -> tuple[dict[str, Any] | None, list[Item]]:
        items = self.link.items
        return (items[0], items[1:]) if items and items[0].get("type") == _HEAD else (None, [])


def link_of(
    response: Mapping[str, Any],
    inputs: Sequence[Item],
    *,
    scope: Scope,
    session: str,
    previous_id: str | None = None,
    episodes: Sequence[str] = (),
    is_native: bool = False,
) -> Link:
    """A response as it is kept; of an upstream's own one, which keeps the rest itself, only the items."""
    told = {name: value for name, value in response.items() if name != "output"}
    head = {"type": _HEAD, "inputs": len(inputs), "response": None if is_native else told}
    return Link(
        id=str(response["id"]),
        previous_id=previous_id,
        scope=scope,
        session=session,
        model=str(response.get("model") or ""),
        items=[head, *inputs, *response.get("output", ())],
        episodes=tuple(episodes),
        created_at=iso(system_clock()),
    )


def earlier_items(chain: Sequence[Kept]) -> list[Item]:
    """All that was said in a chain, oldest first.

    Of a chain whose beginning was forgotten, what tools gave back for calls that are gone goes too: no model's server
    takes the one without the other.
    """
    found: list[Item] = []
    calls: set[object] = set()
    for kept in chain:
        for item in kept.items:
            kind = kind_of(item)
            if kind in CALLS:
                calls.add(item.get("call_id"))
            if kind not in OUTPUTS or item.get("call_id") in calls:
                found.append(item)
    return found
