"""What a reasoning model says to itself before it answers, kept out of the answer."""

from __future__ import annotations

_OPEN, _CLOSE = "<think>", "</think>"


class Answer:
    """An answer without the `<think>...</think>` that it begins with, however it is cut into pieces.

    The tags mean something at the beginning alone; an answer that speaks of them later keeps them.
    """

    def __init__(self) -> None:
        self._held = ""
        self._step = self._beginning

    def add(self, piece: str) -> str:
        """What is known to belong to the answer, now that this piece has come."""
        self._held += piece
        return self._step()

    def end(self) -> str:
        """What was still held when the last piece had come; thoughts that did not end are none of the answer."""
        return self._taken() if self._step == self._beginning else ""

    def _beginning(self) -> str:
        text = self._held.lstrip()
        if text.startswith(_OPEN):
            self._held = text.removeprefix(_OPEN)
            self._step = self._thinking
            return self._step()
        if _OPEN.startswith(text):
            return ""
        self._step = self._taken
        return self._taken()

    def _thinking(self) -> str:
        _, closed, rest = self._held.partition(_CLOSE)
        if not closed:
            self._held = self._held[-len(_CLOSE) :]  # the tag may come in two pieces
            return ""
        self._held = rest
        self._step = self._between
        return self._step()

    def _between(self) -> str:
        self._held = self._held.lstrip()
        if self._held:
            self._step = self._taken
        return self._taken()

    def _taken(self) -> str:
        held, self._held = self._held, ""
        return held


def answer_of(text: str) -> str:
    """The whole text without the thoughts that it begins with."""
    answer = Answer()
    return answer.add(text) + answer.end()
