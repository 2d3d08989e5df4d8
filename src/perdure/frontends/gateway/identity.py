"""Identity: who is talking, as the door and the request say, and so whose memory it is (U6, U7, V53, B16)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import Headers

from perdure.domain.access import Caller
from perdure.domain.scope import Scope
from perdure.domain.text import utf8_of
from perdure.engine.gateway.conversation import DEFAULT, GLOBAL, Conversation, Dialect
from perdure.engine.walls import inside
from perdure.frontends.gateway.overrides import Overrides

USER_HEADER = "x-authz-user-id"
"""By which a proxy that has authenticated somebody says who it is."""
SESSION_HEADER = "x-session-id"
"""By which a client says which sitting a request belongs to."""
_MARKED = 100
"""Characters of the first message by which a conversation without a name is known again (B16)."""


def conversation(
    *,
    caller: Caller,
    headers: Headers,
    body: Mapping[str, Any],
    overrides: Overrides,
    trust_client_user_id: bool,
    dialect: Dialect,
    first: str,
    session: str | None = None,
) -> Conversation | None:
    """The conversation of a request; None where it must say whose it is and does not (B15: user_id_missing).

    `first` is the text of the first message of the user, `session` what a chain of responses is called. ForbiddenError
    where the request names somebody outside of the caller's walls, InvalidInputError for a name that cannot be one.
    """
    team = caller.walls.team_id
    walls = Scope(**{name: value for name, value in caller.walls.given().items() if name != "team_id"})
    user = _user(caller, headers, body, overrides, trust_client_user_id)
    if user is None and not trust_client_user_id and not walls.given():
        return None
    run = overrides.memory_id
    if user is None and run is None and walls.run_id is None:
        run = DEFAULT
    sitting = utf8_of(headers.get(SESSION_HEADER, ""), SESSION_HEADER)
    scope = inside(walls, Scope(user_id=user, run_id=run, project_id=overrides.project_id))
    return Conversation(
        scope=scope,
        shared=_shared(walls, scope),
        session=sitting or overrides.memory_id or session or _mark(user or "", first),
        dialect=dialect,
        team=team,
        project=scope.project_id,
    )


def _user(caller: Caller, headers: Headers, body: Mapping[str, Any], overrides: Overrides, trust: bool) -> str | None:
    """Whom the request is of: a member of a team is who the token says, whatever the request does."""
    if caller.walls.team_id is not None:
        return caller.subject
    told = utf8_of(headers.get(USER_HEADER, ""), USER_HEADER) or caller.walls.user_id
    if told or not trust:
        return told or None
    if overrides.user_id is not None:
        return overrides.user_id
    metadata = body.get("metadata")
    named = (metadata.get("user_id") if isinstance(metadata, dict) else None, body.get("user"))
    return next((each for each in named if isinstance(each, str) and each), None)


def _shared(walls: Scope, scope: Scope) -> Scope | None:
    """The `global` bucket beside a conversation that has a name (K25); none where the walls are one run's."""
    if scope.run_id in (None, GLOBAL) or walls.run_id is not None:
        return None
    return Scope(**{**scope.given(), "run_id": GLOBAL})


def _mark(user: str, first: str) -> str:
    text = f"{user}:{first[:_MARKED]}".encode("utf-8", "replace")
    return f"cc-{hashlib.sha256(text).hexdigest()[:16]}"
