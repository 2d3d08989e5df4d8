"""Which responses and sessions a caller may know of: what is kept of the same user, whatever conversation it is of."""

from __future__ import annotations

from perdure.domain.access import Caller
from perdure.domain.scope import Scope
from perdure.engine.gateway.conversation import Conversation
from perdure.frontends.gateway.asking import Asking
from perdure.frontends.gateway.gateway import Gateway


def reach(conversation: Conversation, caller: Caller, gateway: Gateway) -> Scope:
    """The scope inside of which ids are known to who speaks in a conversation.

    A user's own responses are known to them in every project and conversation of theirs. Who is nobody knows those of
    the conversation, which is their name; where any user may be named, nobody need be (001 §7).
    """
    given, own = conversation.scope.given(), caller.walls.given()
    if conversation.scope.user_id is not None or gateway.trust_client_user_id:
        given = {name: value for name, value in given.items() if name == "user_id" or name in own}
    return Scope(**given)


def reach_of(asking: Asking, conversation: Conversation) -> Scope:
    """The same for a request."""
    return reach(conversation, asking.caller, asking.gateway)
