"""Provenance: whose words a fact is made of, by the messages that it names and the words that it shares with them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from perdure.domain.message import Message
from perdure.domain.pattern import Pattern
from perdure.pipeline.firewall.folding import fold, tokens
from perdure.pipeline.firewall.suspicion import INSTRUCTION, SYSTEM, TOOL, suspect
from perdure.pipeline.lexicon import words

ASSISTANT = "assistant"
PASTED = "pasted"
"""Origin of what stands in a user's message behind an order to a model: text that somebody else wrote."""

BORROWED = 0.5
"""Share of a fact's words that only tools or orders hold, from which it counts as theirs."""

_ORIGINS = {"tool": TOOL, "function": TOOL, "system": SYSTEM, "developer": SYSTEM, "assistant": ASSISTANT}
_PIECE = Pattern(r"[^\n.!?。！？]*(?:[.!?。！？]+|\n+|\Z)")
_PASTE = Pattern(r":[ \t]*\n|:\s*[\"'“„«‘]|-{3,}|>>|^[ \t]*>|```|<", re.MULTILINE)
"""Where text by others begins in a message that holds some."""
_WORD = Pattern(r"\w+")
_YEAR = Pattern(r"(?:19|20)\d\d")
PARTS = 64
"""Parts of a message that are looked at one by one for the first order."""
LEAST_NUMBER = 3
"""Digits from which a number says whose it is."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Whose words something is made of, and why it is kept out of prompts; None, None: a user's own."""

    origin: str | None = None
    quarantined: str | None = None

    @property
    def is_own(self) -> bool:
        """Whether a user said it themself."""
        return self.origin is None and self.quarantined is None


def origin_of(role: str | None) -> str | None:
    """Whose words a message of this role holds, where these are not a user's."""
    return _ORIGINS.get(role or "")


class Hearing:
    """Tells whose words the facts of one conversation are made of."""

    def __init__(self, messages: Sequence[Message], forged: Collection[int] = ()) -> None:
        """`forged` are positions of messages that a forged memory block was taken out of."""
        self._messages = messages
        self._forged = forged
        self._suspicions = [
            suspect(message.content, message.role) or (INSTRUCTION if place in forged else None)
            for place, message in enumerate(messages)
        ]

    def of(self, text: str, sources: Collection[int]) -> Provenance:
        """The provenance of a fact from messages at these positions; of one without, from all of them.

        A fact whose messages are all a tool's is a tool's, and so is one that shares its names, its numbers or half of
        its words with tools alone: a model that read the conversation may have named the wrong message.
        """
        heard = [place for place in sources if place < len(self._messages)] or range(len(self._messages))
        origins = {origin_of(self._messages[place].role) for place in heard}
        origin = next((each for each in (None, ASSISTANT, TOOL, SYSTEM) if each in origins), None)
        if origin in (TOOL, SYSTEM):
            return Provenance(origin, origin)
        if suspect(text, None) is not None:
            return Provenance(origin, INSTRUCTION)
        for borrowed, reason, whose in self._untrusted:
            if self._borrows(text, borrowed):
                return Provenance(whose, reason)
        return Provenance(origin)

    def is_users(self, text: str) -> bool:
        """Whether a user's own words hold at least half of the text's."""
        said = _content(text)
        return bool(said) and sum(word in self._own for word in said) >= BORROWED * len(said)

    def _borrows(self, text: str, others: set[str]) -> bool:
        said = _content(text)
        borrowed = {word for word in said if word in others and word not in self._own}
        return len(borrowed) >= BORROWED * len(said) > 0 or not borrowed.isdisjoint(_telling(text))

    @cached_property
    def _own(self) -> set[str]:
        """The words of users, up to where they paste what others wrote."""
        own: set[str] = set()
        for place, message in enumerate(self._messages):
            if message.role == "user":
                own |= _words_of(message.content[: self._ends(place)])
        return own

    def _ends(self, place: int) -> int:
        """Where the user's own words end in a message."""
        content = self._messages[place].content
        if self._suspicions[place] is None:
            return len(content)
        return 0 if place in self._forged else len(own_words(content))

    @cached_property
    def _untrusted(self) -> list[tuple[set[str], str, str]]:
        """The words of tools, of the application, and of pasted orders, each with what it makes of a fact."""
        found = []
        for reason, whose in ((TOOL, TOOL), (SYSTEM, SYSTEM), (INSTRUCTION, PASTED)):
            theirs: set[str] = set()
            for place, message in enumerate(self._messages):
                if self._suspicions[place] == reason:
                    theirs |= _words_of(message.content[self._ends(place) if message.role == "user" else 0 :])
            if theirs:
                found.append((theirs, reason, whose))
        return found


def own_words(message: str) -> str:
    """Of a user's message with orders in it, what stands before them and before what is quoted or pasted."""
    end = start = 0
    for piece in _PIECE.finditer(message):
        if piece.end() - start < len(message) / PARTS and piece.end() < len(message):
            continue  # so many tiny pieces that each takes longer than all of them together
        if suspect(message[start : piece.end()], None) is not None:
            end = start
            break
        start = piece.end()
    paste = _PASTE.search(message, 0, end)
    return message[: paste.start() if paste else end]


def _words_of(text: str) -> set[str]:
    return set(tokens(fold(text)))


def _content(text: str) -> set[str]:
    """The words of a fact that say something."""
    passed = words("recall_stopwords.txt")
    return {word for word in _words_of(text) if word not in passed and word not in ("user", "users")}


def _telling(text: str) -> set[str]:
    """The names and numbers of a fact, without its first word and without times."""
    times = words("time_words.txt")
    found: set[str] = set()
    for name in _WORD.finditer(text):
        if not name.start() or name.group().islower():
            continue
        for word in _words_of(name.group()):
            is_short = word.isdigit() and (len(word) < LEAST_NUMBER or _YEAR.fullmatch(word))
            if not is_short and word not in times:
                found.add(word)
    return found
