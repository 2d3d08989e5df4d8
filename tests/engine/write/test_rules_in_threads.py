"""The rules read and decide beside the event loop, and `forget` empties what they keep of texts in memory."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from perdure.engine.write import curator
from perdure.pipeline.curation.rules import slots
from tests.conftest import Open

HASHED = {"provider": "hashed"}


def test_even_a_short_message_is_read_and_decided_in_a_thread(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    where: list[str] = []

    def noting(name: str) -> None:
        function = getattr(curator, name)

        def noted(*args: Any, **kwargs: Any) -> Any:
            where.append(threading.current_thread().name)
            return function(*args, **kwargs)

        monkeypatch.setattr(curator, name, noted)

    noting("read_messages")
    noting("decide")
    memory = open_memory(embedder=HASHED)
    memory.add("I live in Oslo.", user_id="ana")
    assert len(where) == 2
    assert all(name.startswith("perdure_") for name in where), where


@pytest.mark.parametrize("erase", [True, False])
def test_forget_empties_what_was_made_of_texts(open_memory: Open, erase: bool) -> None:
    memory = open_memory(embedder=HASHED)
    for text in ("My sister Ana lives in Oslo.", "I own a kiln.", "She plays the cello."):
        memory.add(text, user_id="ana")
        memory.add(text, user_id="bo")
    reading = slots.read("User's sister Ana lives in Oslo")
    memory.forget(user_id="ana", erase=erase)
    assert slots.read("User's sister Ana lives in Oslo") is not reading


def test_reset_empties_all_of_it(open_memory: Open) -> None:
    memory = open_memory(embedder=HASHED)
    memory.add("I own a kiln.", user_id="ana")
    reading = slots.read("User owns a kiln")
    memory.reset()
    assert slots.read("User owns a kiln") is not reading
