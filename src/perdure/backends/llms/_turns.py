"""A conversation in the form that services with two roles take: rules apart, then turns of user and model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.backends.service import readable
from perdure.domain.message import Message, transcript

_RULES = ("system", "developer")


@dataclass(frozen=True, slots=True)
class Turn:
    """What one side said."""

    by_model: bool
    text: str


def turns(system: str, messages: Sequence[Message]) -> tuple[str, list[Turn]]:
    """The system prompt, which system messages join, and the turns as valid Unicode; at least one, unless all is empty.

    The services refuse empty messages, which are left out, and turns that do not alternate, or do not begin and end
    with the user: messages of one side become one turn, and a conversation of another shape one transcript.
    """
    said = [message for message in messages if message.content.strip()]
    rules = [message.content for message in said if message.role in _RULES]
    spoken = [message for message in said if message.role not in _RULES]
    found: list[Turn] = []
    for message in spoken:
        turn = Turn(message.role == "assistant", readable(message.content))
        if found and found[-1].by_model == turn.by_model:
            turn = Turn(turn.by_model, f"{found.pop().text}\n\n{turn.text}")
        found.append(turn)
    if found and (found[0].by_model or found[-1].by_model):
        found = [Turn(False, readable(transcript(spoken)))]
    return readable("\n\n".join(filter(None, [system, *rules]))), found
