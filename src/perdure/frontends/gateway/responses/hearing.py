"""Reads what a model says in an answer of the Responses API that passes through untouched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.frontends.gateway.placing import words
from perdure.frontends.gateway.responses.items import asks_for_tools, kind_of


class Hearing:
    """Listens to one native answer: its events one by one, or the whole object."""

    def __init__(self) -> None:
        self.response_id: str | None = None
        """The answer's id, known from its first event on."""
        self.model: str | None = None
        self.is_complete = False
        """Whether the answer came to its own end."""
        self.asks = False
        """Whether it asks for tools of the client's."""
        self._pieces: list[str] = []
        self._whole: str | None = None

    @property
    def text(self) -> str:
        """What the model has said so far."""
        return self._whole if self._whole is not None else "".join(self._pieces)

    def event(self, data: Mapping[str, Any]) -> None:
        """Take in one event of a stream; those of kinds that say nothing are passed over."""
        kind = data.get("type")
        if kind == "response.output_text.delta" and isinstance(data.get("delta"), str):
            self._pieces.append(data["delta"])
        elif kind == "response.output_item.done" and self._pieces:
            # Between two messages of one answer.
            self._pieces.append("\n")
        elif isinstance(data.get("response"), dict):
            self._object(data["response"], is_last=kind in _LAST)

    def whole(self, response: Mapping[str, Any]) -> None:
        """Take in the answer of a request that did not stream."""
        self._object(response, is_last=True)

    def _object(self, response: Mapping[str, Any], *, is_last: bool) -> None:
        given = response.get("id")
        self.response_id = given if isinstance(given, str) and given else self.response_id
        self.model = response["model"] if isinstance(response.get("model"), str) else self.model
        if not is_last:
            return
        output = response.get("output")
        items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
        texts = [words(item.get("content")) for item in items if kind_of(item) == "message"]
        if any(texts):
            self._whole = "\n".join(text for text in texts if text)
        self.asks = asks_for_tools(items)
        self.is_complete = response.get("status") == "completed"


_LAST = ("response.completed", "response.incomplete", "response.failed")
