"""Who calls a tool and what they may reach, and a person's consent before memories are erased or released.

The person is asked through the client, or the model by a handle.

A handle comes from an earlier call. It is a MAC over the act, the caller, the ids and hashes of the memories and the
time until which it is valid. It needs no table, so it also works on another worker; it fits nothing but this act on
exactly these memories in exactly this state.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp_types.version import is_version_at_least

from perdure.domain.memory import MemoryItem

if TYPE_CHECKING:
    from perdure.frontends.library.memory import AsyncMemory
    from perdure.frontends.library.team import AsyncTeamMemory

RequestContext = ServerRequestContext[Any, Any]
"""One request, as the SDK describes it: the client, its revision of the protocol, and the HTTP request if any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerAccess:
    """What one request may reach."""

    memory: AsyncMemory
    """A view that is limited to the caller's scope, so calls on it name no user."""
    caller: str
    """Identifies caller and scope; a confirmation is valid for the same one only."""


class AccessProvider(Protocol):
    """Decides what a request may reach. The scope comes from here, never from a tool's arguments."""

    def may_write(self, context: RequestContext) -> bool:
        """Return whether the caller may change memories; the list of tools depends on it."""

    def caller(self, context: RequestContext) -> str:
        """Return the text that identifies the caller."""

    async def open(self, context: RequestContext) -> CallerAccess:
        """Return the caller's access, opening the memory at the first call; PerdureError if there is none."""

    async def team(self, context: RequestContext) -> AsyncTeamMemory:
        """Return the caller's team memory; PerdureError if the caller is in no team."""


LIFETIME_SECONDS = 600
"""How long a handle, or a question to the person, stays valid."""
MAC_BYTES = 10
MOST_SHOWN = 10
"""Memories that a question names."""
LONGEST_SHOWN = 200
_ASKS_IN_ANSWERS = "2026-07-28"
"""Since this revision a question is the answer to the call, and the client calls again with the person's reply."""


@dataclass(frozen=True, slots=True)
class Act:
    """Something that only a person may allow."""

    name: str
    """The key of the question, and of the field that the person fills in."""
    heading: str
    """Begins the question; the memories follow."""
    yes: str
    """What the box says."""
    explanation: str
    """What yes and no do."""


class Decision(Enum):
    """Whether the person has agreed."""

    YES = "yes"
    NO = "no"
    UNASKED = "unasked"
    """The client cannot ask: the model has to, and then calls again with the handle."""
    MISMATCH = "mismatch"
    """The handle has expired, or is for something else."""


class Consent:
    """Makes and checks handles, and asks the person where the client can."""

    def __init__(self, secret: bytes | None = None) -> None:
        self._key = secret if secret is not None else secrets.token_bytes(32)

    def boundary(self, access: AccessProvider, name: str) -> RequestStateBoundary:
        """Return the middleware that seals the state of a question while the client holds it."""
        key = hashlib.sha256(b"perdure/mcp/state" + self._key).digest()
        security = RequestStateSecurity(keys=[key], ttl=LIFETIME_SECONDS, bind_principal=access.caller)
        return RequestStateBoundary(security, default_audience=name)

    def handle(self, act: Act, caller: str, items: Sequence[MemoryItem], until: int | None = None) -> str:
        """Return the handle by which this caller may do this to these memories, for ten minutes."""
        until = int(time.time()) + LIFETIME_SECONDS if until is None else until
        told = json.dumps([act.name, caller, until, sorted((item.id, item.hash) for item in items)])
        mac = hmac.new(self._key, told.encode(), hashlib.sha256).digest()[:MAC_BYTES]
        return f"{until:x}-{mac.hex()}"

    def fits(self, handle: str, act: Act, caller: str, items: Sequence[MemoryItem]) -> bool:
        """Return whether the handle was made for this act, this caller and exactly these memories, and is valid."""
        stamp, _, _ = handle.partition("-")
        try:
            until = int(stamp, 16)
        except ValueError:
            return False
        expected = self.handle(act, caller, items, until)
        return hmac.compare_digest(expected.encode(), handle.encode("utf-8", "replace")) and time.time() < until


def can_ask(context: RequestContext) -> bool:
    """Return whether the client can show its user a form."""
    told = context.session.client_capabilities
    able = told.elicitation if told is not None else None
    if able is None or (able.form is None and able.url is not None):
        return False
    return asks_by_answer(context) or context.session.can_send_request


def asks_by_answer(context: RequestContext) -> bool:
    """Return whether a question is sent as the answer to the call."""
    return is_version_at_least(context.protocol_version, _ASKS_IN_ANSWERS)


def question(act: Act, items: Sequence[MemoryItem], note: str) -> types.ElicitRequestFormParams:
    """Return the form that asks the person."""
    named = "\n".join(f"- {_shortened(item.memory)}" for item in items[:MOST_SHOWN])
    more = f"\n- and {len(items) - MOST_SHOWN} more" if len(items) > MOST_SHOWN else ""
    return types.ElicitRequestFormParams(
        message=f"{act.heading}\n{named}{more}{note and chr(10) + note}",
        requested_schema={
            "type": "object",
            "properties": {act.name: {"type": "boolean", "title": act.yes, "description": act.explanation}},
            "required": [act.name],
        },
    )


def is_yes(reply: types.ElicitResult, act: Act) -> bool:
    """Return whether the person accepted and ticked the box."""
    return reply.action == "accept" and (reply.content or {}).get(act.name) is True


async def ask_now(context: RequestContext, form: types.ElicitRequestFormParams, act: Act) -> bool:
    """Ask the person during the call, as clients before 2026-07-28 do; return whether they said yes."""
    reply = await context.session.elicit_form(
        message=form.message, requested_schema=form.requested_schema, related_request_id=context.request_id
    )
    return is_yes(reply, act)


def reply_of(params: types.CallToolRequestParams, act: Act) -> types.ElicitResult | None:
    """Return the person's reply that a repeated call carries."""
    found: Any = (params.input_responses or {}).get(act.name)
    return found if isinstance(found, types.ElicitResult) else None


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_SHOWN else f"{line[:LONGEST_SHOWN]}…"
