"""What every reranker does to a query and texts before it reads them."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.backends.service import readable
from perdure.domain.errors import InvalidInputError


def readable_query(query: str) -> str:
    """The query as valid Unicode; InvalidInputError for anything that is no text."""
    if not isinstance(query, str):
        raise InvalidInputError(f"query must be text, not {type(query).__name__}", field="query", value=query)
    return readable(query)


def readable_texts(texts: Sequence[str]) -> list[str]:
    """The texts as valid Unicode; InvalidInputError for anything that is no list of texts."""
    if isinstance(texts, str | bytes):
        raise InvalidInputError(
            f"texts must be a list of texts, not one {type(texts).__name__}", field="texts", value=texts
        )
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            field = f"texts[{position}]"
            raise InvalidInputError(f"{field} must be text, not {type(text).__name__}", field=field, value=text)
    return [readable(text) for text in texts]
