"""A model's thinking aloud, which is no part of what it says (checklist B4)."""

from __future__ import annotations

import re

# A thought opens a line; inside a fact the same letters are text.
_THOUGHT = re.compile(r"^\s*<(think|thinking)>.*?(?:</\1>|\Z)\s*", re.DOTALL | re.IGNORECASE | re.MULTILINE)


def without_thoughts(answer: str) -> str:
    """The answer without `<think>` parts; one that was never closed reaches to the end."""
    return _THOUGHT.sub("", answer)
