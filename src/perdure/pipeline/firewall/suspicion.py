"""Suspicion: why a text is kept out of prompts, or that it is not."""

from __future__ import annotations

from functools import cache, lru_cache

from perdure.pipeline.firewall.folding import fold, rot13, squeezed, tokens
from perdure.pipeline.firewall.marks import carries_away, decoded, is_forged, is_hidden
from perdure.pipeline.firewall.wording import ordered
from perdure.pipeline.lexicon import lines

TOOL = "tool"
"""It is what a tool answered: a page, a file, a mail."""
SYSTEM = "system"
"""It is what the application told the model, and nobody told the application."""
INSTRUCTION = "instruction"
"""It gives a model orders, or plays a part of its prompt."""

_BY_ROLE = {"tool": TOOL, "function": TOOL, "system": SYSTEM, "developer": SYSTEM}


def suspect(text: str, role: str | None) -> str | None:
    """Why a text of this role is kept out of prompts, or None: `tool` and `system` by its role, else `instruction`.

    A user's own wishes ("always answer in German") are no instructions in this sense; orders that speak of "the user"
    in the third person, that undo a model's rules or carry a conversation away are, and so are forged turns, hidden
    letters and what is encoded. Deterministic, in time proportional to the text's length.
    """
    of_role = _BY_ROLE.get(role or "")
    if of_role is not None:
        return of_role
    return INSTRUCTION if is_instruction(text) else None


_KNOWN = 2_000
"""Texts that are not looked at twice, as each message of a conversation would be for every later one; and the
characters of such a text, so that they take some megabytes at most."""


def is_instruction(text: str) -> bool:
    """Whether a text gives a model orders, whoever wrote it."""
    return _known(text) if len(text) <= _KNOWN else _gives_orders(text)


@lru_cache(_KNOWN)
def _known(text: str) -> bool:
    return _gives_orders(text)


def _gives_orders(text: str) -> bool:
    if is_hidden(text) or carries_away(text):
        return True
    folded = fold(text)
    if is_forged(text, folded) or _orders(folded):
        return True
    return _orders(rot13(folded)) or any(_orders(fold(said)) for said in decoded(text))


def _orders(folded: str) -> bool:
    if ordered(tokens(folded)):
        return True
    letters = squeezed(folded)
    return any(phrase in letters for phrase in _squeezed())


@cache
def _squeezed() -> tuple[str, ...]:
    return lines("firewall_squeezed.txt")
