"""Take one step of a conversation in OpenAI's chat format: recall, place the memories, and keep the turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any

from perdure.domain.errors import InvalidInputError
from perdure.domain.memory import MemoryItem
from perdure.domain.message import ROLES, Message
from perdure.domain.text.readable import shown
from perdure.engine.chat.caller_model import ModelGrant
from perdure.engine.chat.memory_reader import Recalled, RecallRequest, shown_in
from perdure.engine.chat.settings import Conversation, GatewaySettings, Injection
from perdure.engine.chat.turn_log import PendingTurn
from perdure.pipeline.prompting.context_block import ahead, system_block, user_and_team_block
from perdure.pipeline.retrieval.rewrite import EARLIER_MESSAGES

INSTRUCTING = ("system", "developer")
TOOLS = ("tool", "function")
Messages = Sequence[Mapping[str, Any]]


def place(messages: Messages, recalled: Recalled, injection: Injection, max_tokens: int) -> list[Mapping[str, Any]]:
    """Put the memories before the words of the user's last message, or into a message of their own.

    A team's CANONICAL facts always go into a system message. No other message is touched; equal input gives equal
    output.
    """
    found = list(messages)
    beside = recalled.block_arguments(max_tokens)
    if injection == "system":
        return _apart(found, "system", system_block(recalled.hits, **beside))
    block, team = user_and_team_block(recalled.hits, **beside)
    if injection == "user_message":
        found = _apart(found, "user", block)
    elif block and (at := last_of_user(found)) is not None:
        found[at] = _before_words(found[at], block)
    return _apart(found, "system", team)


def check_messages(messages: object) -> list[Mapping[str, Any]]:
    """Return the messages of a chat; InvalidInputError if it is none. The model's server checks the rest."""
    if isinstance(messages, (str, bytes)) or not isinstance(messages, Sequence) or not messages:
        raise InvalidInputError(
            f"messages must be a list of one message at least, not {shown(messages)}", field="messages", value=messages
        )
    for at, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise InvalidInputError(f"messages[{at}] must be an object with a role", field=f"messages[{at}]")
    return list(messages)


def hit_view(item: MemoryItem) -> dict[str, Any]:
    """Return a recalled memory as answers to chats show it."""
    return {"role": item.role, "content": item.memory, "created_at": item.created_at, "score": item.score}


def last_of_user(messages: Messages) -> int | None:
    """Return the position of the user's last message."""
    return next((at for at in reversed(range(len(messages))) if messages[at].get("role") == "user"), None)


def words(content: object) -> str:
    """Return the text of a message's content, or of its parts; "" if there is none."""
    if isinstance(content, str):
        return _readable(content)
    if not isinstance(content, list):
        return ""
    texts = [part.get("text") if isinstance(part, dict) else part for part in content]
    return _readable("\n".join(text for text in texts if isinstance(text, str) and text))


def said(message: Mapping[str, Any]) -> Message | None:
    """Convert a message; None for one without text or of an unknown role."""
    role, text = message.get("role"), words(message.get("content"))
    if role not in ROLES or not text.strip():
        return None
    name = message.get("name")
    return Message(role, text, name=_readable(name) if isinstance(name, str) and name else None)


def turn_of(messages: Messages) -> tuple[Message, list[Message]] | None:
    """Return the turn to store: the user's last message, or tools' results if they are last; None without text."""
    results = list(takewhile(lambda each: each.get("role") in TOOLS, reversed(messages)))
    if results:
        tools = [result for each in reversed(results) if (result := said(each))]
        return (Message("user", ""), tools) if tools else None
    at = last_of_user(messages)
    user = None if at is None else said(messages[at])
    return None if user is None else (user, [])


def _apart(messages: list[Mapping[str, Any]], role: str, block: str) -> list[Mapping[str, Any]]:
    """Insert a message with the block after the instructions at the beginning."""
    if not block:
        return messages
    at = next((at for at, each in enumerate(messages) if each.get("role") not in INSTRUCTING), len(messages))
    return [*messages[:at], {"role": role, "content": block}, *messages[at:]]


def _before_words(message: Mapping[str, Any], block: str) -> Mapping[str, Any]:
    """Put a block before the words of a message; content of an unknown shape stays as it is."""
    content = message.get("content")
    if isinstance(content, list):
        return {**message, "content": [{"type": "text", "text": ahead(block)}, *content]}
    return {**message, "content": ahead(block) + content} if isinstance(content, str) else message


def _readable(text: str) -> str:
    """Replace lone surrogates, which JSON may hold and UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode("utf-8")


HISTORY = 20  # messages before the last one that recall uses


def lately(newest_first: Iterable[Message | None]) -> tuple[Message, ...]:
    """Return the last `HISTORY` messages with text, oldest first, and at least the user's last three."""
    found: list[Message] = []
    by_user = 0
    for place, message in enumerate(newest_first):
        if place >= HISTORY and by_user >= EARLIER_MESSAGES:
            break
        is_users = message is not None and message.role == "user"
        by_user += is_users
        if message is not None and (is_users or place < HISTORY):
            found.append(message)
    return tuple(reversed(found))


def forces_tool(fields: Mapping[str, Any]) -> bool:
    """Whether a request makes the model call a tool; not if the model may choose."""
    choice = fields.get("tool_choice")
    if isinstance(choice, dict):
        kind = choice.get("type")
        if kind == "allowed_tools":
            inside = choice.get("allowed_tools")  # chat's shape; Responses has the name beside the type
            choice = (inside if isinstance(inside, dict) else choice).get("mode")
        else:
            return kind not in ("auto", "none")
    return choice in ("required", "any") or isinstance(fields.get("function_call"), dict)


def first_choice(completion: Any) -> dict[str, Any] | None:
    """Return choice 0 of a completion, or of a chunk of one."""
    choices = completion.get("choices") if isinstance(completion, dict) else None
    if not isinstance(choices, list):
        return None
    return next((each for each in choices if isinstance(each, dict) and each.get("index", 0) == 0), None)


def answer_text(completion: Any) -> str:
    """Return the assistant's text in a whole completion; "" if there is none."""
    message = (first_choice(completion) or {}).get("message")
    return words(message.get("content")) if isinstance(message, dict) else ""


class ConversationStep:
    """One step of a conversation: recall, place the memories into the messages, call the model, store the turn.

    The gateway's chats, `MemoryClient.chat` and `perdure chat` all use it. They pass in the memory to search, and call
    the model themselves after `recall`.
    """

    def __init__(self, conversation: Conversation, messages: Messages, fields: Mapping[str, Any] | None = None) -> None:
        """`fields` are the other fields of the request, in OpenAI's format."""
        self.conversation = conversation
        self.recalled = Recalled(status="missing", reason="empty_context")
        self._messages = messages
        self._fields = fields or {}

    async def recall(self, look: Callable[[RecallRequest], Awaitable[Recalled]], **overrides: Any) -> Recalled:
        """Use `look` to recall memories for the user's last message; `overrides` are fields of `RecallRequest`."""
        messages, at = self._messages, last_of_user(self._messages)
        request = RecallRequest(
            conversation=self.conversation,
            query="" if at is None else words(messages[at].get("content")),
            history=() if at is None else lately(said(each) for each in reversed(messages[:at])),
            requires_tool=forces_tool(self._fields) or messages[-1].get("role") in TOOLS,
            shown=shown_in(words(each.get("content")) for each in messages),
            **overrides,
        )
        self.recalled = await look(request)
        return self.recalled

    def placed(self, settings: GatewaySettings) -> list[Mapping[str, Any]]:
        """Return the messages with the recalled memories in them."""
        return place(self._messages, self.recalled, settings.chat_injection, settings.injected_tokens)

    def pending(self, grant: ModelGrant | None = None) -> PendingTurn | None:
        """Return the turn to store, still without its answer; None if there is nothing to store."""
        turn = turn_of(self._messages)
        if turn is None:
            return None
        user, tools = turn
        return PendingTurn(conversation=self.conversation, user=user, tools=tools, grant=grant)
