"""Routes of sessions: read the state of one, and end one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from perdure.domain.access import Caller
from perdure.domain.errors import AuthenticationError, ForbiddenError, NotFoundError, ScopeError
from perdure.domain.scope import MAX_SCOPE_LENGTH
from perdure.domain.session import Session
from perdure.domain.stored_memory import shown_id
from perdure.domain.text.readable import is_unicode, shown
from perdure.engine.chat.settings import Conversation
from perdure.engine.chat.turn_log import own_session, own_session_of
from perdure.frontends.gateway.gateway import Gateway, may_store
from perdure.frontends.gateway.overrides import read_overrides
from perdure.frontends.gateway.request_context import USER_HEADER, caller_of, conversation, gateway_of
from perdure.frontends.gateway.responses.chains import Chains
from perdure.frontends.gateway.responses.request import reach

router = APIRouter(prefix="/v1/sessions", tags=["gateway"])
Name = Annotated[str, Field(min_length=1, max_length=MAX_SCOPE_LENGTH)]


class SessionOut(BaseModel):
    """The state of a session; times are ISO 8601 UTC."""

    id: str = Field(description="Its name", examples=["resp_5a537f9c24e8a1d24f0c9a3be1d05c7e"])
    session_id: str = Field(description="The ledger's id", examples=["0b7f4c0e-5a53-5c6e-8a53-5f5e5c6d7e8f"])
    turns: int = Field(examples=[12])
    read_turns: int = Field(description="Turns that were read for facts", examples=[10])
    started_at: str = Field(examples=["2026-03-15T09:30:00.000000+00:00"])
    last_at: str = Field(description="When something was last said", examples=["2026-03-15T09:42:00.000000+00:00"])
    ended_at: str | None = Field(None, examples=[None])


class EndedOut(BaseModel):
    """The result of ending a session."""

    id: str = Field(examples=["resp_5a537f9c24e8a1d24f0c9a3be1d05c7e"])
    session_id: str = Field(examples=["0b7f4c0e-5a53-5c6e-8a53-5f5e5c6d7e8f"])
    turns: int = Field(examples=[12])
    facts: int = Field(description="Memories that stand of what was said in its last sitting", examples=[3])
    is_read: bool = Field(description="Whether all of it was read; what could not be is tried again")
    summary_id: str | None = Field(
        None, description="The episodic memory that tells of it", examples=["mem_7f9c24e8a1d24f0c9a3be1d05c7e8a11"]
    )


class Whose(BaseModel):
    """The user of a session, if neither credentials nor a proxy's header name one."""

    model_config = ConfigDict(extra="forbid")

    user_id: Name | None = Field(None, description=f"The user, where {USER_HEADER} names none")
    project_id: Name | None = Field(None, description="The project that the session was held in")
    memory_id: Name | None = Field(None, description="The conversation that it belongs to")


SessionName = Annotated[
    str,
    Path(
        description="Its name (x-session-id, memory_id), any response's id of its chain, or the ledger's id",
        examples=["resp_5a537f9c24e8a1d24f0c9a3be1d05c7e"],
    ),
]


@router.get("/{session_id:path}", summary="How far a session has come")
async def get_session(request: Request, session_id: SessionName, query: Annotated[Whose, Query()]) -> SessionOut:
    """Return its turns, and how many of them were read for facts; 404 also if it belongs to another user."""
    session = await _found(request, session_id, query)
    shared = ("turns", "read_turns", "started_at", "last_at", "ended_at")
    return SessionOut(id=session.name, session_id=session.id, **{name: getattr(session, name) for name in shared})


@router.post("/{session_id:path}/end", summary="End a session")
async def end_session(request: Request, session_id: SessionName, body: Whose | None = None) -> EndedOut:
    """Read its unread turns and store a summary as an episodic memory; a later turn opens it again."""
    if not may_store(caller_of(request)):
        raise ForbiddenError("this needs more than the role reader")
    session = await _found(request, session_id, body or Whose())
    ended = await gateway_of(request).remembering.end_session(session.name, session.scope)
    return EndedOut(
        id=session.name,
        session_id=ended.session_id,
        turns=ended.turns,
        facts=ended.facts,
        is_read=ended.is_read,
        summary_id=shown_id(ended.summary_id) if ended.summary_id else None,
    )


async def _found(request: Request, name: str, whose: Whose) -> Session:
    unknown = NotFoundError(f"there is no session {shown(name)} here")
    if not name or len(name) > MAX_SCOPE_LENGTH or "\x00" in name or not is_unicode(name):
        raise unknown
    gateway, caller = gateway_of(request), caller_of(request)
    talk = _conversation(request, gateway, caller, whose)
    # The last answer may still be on its way into memory, and belongs to the session.
    await gateway.written()
    walls = reach(talk, caller, gateway)
    kernel = gateway.engine.kernel
    ledger = await kernel.required_ledger()
    kept = await Chains(gateway).get(name, walls)
    if kept is not None:
        found = await own_session(kernel, ledger, kept.link.session, kept.link.scope)
    else:
        found = await own_session(kernel, ledger, name, talk.scope) or await own_session_of(kernel, ledger, name)
    if found is None or not walls.holds(found.scope):
        raise unknown
    return found


def _conversation(request: Request, gateway: Gateway, caller: Caller, whose: Whose) -> Conversation:
    context = {name: value for name, value in whose.model_dump(exclude={"memory_id"}).items() if value is not None}
    body = {"memory_context": context, "memory_id": whose.memory_id}
    if whose.user_id is not None and not gateway.trust_client_user_id and whose.user_id != caller.walls.user_id:
        raise AuthenticationError(f"a user_id that a client gives is not believed here: {USER_HEADER} names the user")
    found = conversation(
        caller=caller,
        headers=request.headers,
        body=body,
        overrides=read_overrides(request.headers, body),
        trust_client_user_id=gateway.trust_client_user_id,
        dialect="responses",
        first="",
    )
    if found is None:
        raise ScopeError(f"whose session? send {USER_HEADER}, or credentials that name a user", field="user_id")
    return found
