"""Echo suppression: text that perdure itself put into a prompt is never read as something that was said."""

from __future__ import annotations

import hashlib
import re

OPENING = "<perdure-memory"
CLOSING = "</perdure-memory>"

_BLOCK = re.compile(r"<perdure-memory\b[^>\n]{0,200}>.*?(?:</perdure-memory>|\Z)", re.DOTALL)


def fingerprint(text: str) -> str:
    """A short mark of a text that survives changes of space and letter case."""
    folded = " ".join(text.split()).casefold()
    return hashlib.blake2b(folded.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def strip_injected(text: str) -> str:
    """The text without the memory blocks that `inject` rendered into it; a block that was cut off goes to its end."""
    if OPENING not in text:
        return text
    return _BLOCK.sub(" ", text).strip()
