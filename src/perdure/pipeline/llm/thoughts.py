"""A model's thinking aloud, which is no part of what it says (checklist B4)."""

from __future__ import annotations

import re

from perdure.domain.pattern import Pattern

# A thought opens a line; inside a fact the same letters are text.
_THOUGHT = Pattern(r"^\s*<(think|thinking)>.*?(?:</\1>|\Z)\s*", re.DOTALL | re.IGNORECASE | re.MULTILINE)


def without_thoughts(answer: str) -> str:
    """The answer without `<think>` parts; one that was never closed reaches to the end."""
    return _THOUGHT.sub("", answer)
