"""What every embedder does to texts before it reads them."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.domain.errors import InvalidInputError


def readable_texts(texts: Sequence[str]) -> list[str]:
    """The texts as valid Unicode: a lone surrogate becomes U+FFFD. InvalidInputError for anything that is no text."""
    if isinstance(texts, str | bytes):
        raise InvalidInputError(
            f"texts must be a list of texts, not one {type(texts).__name__}: use embed() for one text",
            field="texts",
            value=texts,
        )
    return [_readable(text, position) for position, text in enumerate(texts)]


def _readable(text: str, position: int) -> str:
    if not isinstance(text, str):
        raise InvalidInputError(
            f"texts[{position}] must be text, not {type(text).__name__}", field=f"texts[{position}]", value=text
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
