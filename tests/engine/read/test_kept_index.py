"""A scope that this process has not searched yet: read from what was kept beside its rows, whatever became of that."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import Memory
from perdure.domain.scope import Scope
from tests.conftest import Open
from tests.engine.core.adversarial_memories import ANA, HASHED
from tests.engine.read.test_recall_index import CAT, HOME, TEA, found, indexes_of, kernel_of

SAID = [
    {"role": "user", "name": "Ana", "content": "Shall we walk to the harbour?", "timestamp": "2026-05-01T10:00Z"},
    {"role": "user", "name": "Bo", "content": "Yes, at noon, and have green tea.", "timestamp": "2026-05-01T10:01Z"},
    {"role": "user", "content": "Long: " + "the kiln in the garden was hot. " * 40, "timestamp": "2026-05-02T10:00Z"},
    {"role": "user", "content": "我喜欢北京烤鸭", "timestamp": "2026-05-03T10:00Z"},
]  # fmt: skip
QUESTIONS = ("where is the harbour?", "what tea did Bo have?", "the kiln in the garden", "北京", "Ana's home", "zebra")


@pytest.fixture
def told(open_memory: Open) -> Memory:
    """Facts and messages, written by an engine that does not search."""
    memory = open_memory(embedder=HASHED)
    memory.add_facts([TEA, HOME, CAT], **ANA)
    memory.add(SAID, infer=False, **ANA)
    return memory


def answers(memory: Memory) -> list[Any]:
    """What every question finds, with scores."""
    return [
        [(item.memory, round(item.score or 0, 4)) for item in memory.search(question, limit=5, **ANA).results]
        for question in QUESTIONS
    ]


def from_texts(open_memory: Open, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What an engine finds that reads the scope from its texts, as for stores that keep nothing beside rows."""
    memory = open_memory(embedder=HASHED)

    async def nothing(*_: Any) -> None:
        return None

    memory.get_all(**ANA)
    monkeypatch.setattr(kernel_of(memory).store, "kept_rows", nothing)
    return answers(memory)


def change(memory: Memory, *statements: str) -> None:
    """Change the store's file behind the engine's back."""
    file = Path(kernel_of(memory).store.settings.path)  # type: ignore[attr-defined]
    connection = sqlite3.connect(file)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_it_answers_as_an_index_that_was_read_from_the_texts(
    told: Memory, open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answers(open_memory(embedder=HASHED)) == from_texts(open_memory, monkeypatch)


def test_no_word_is_encoded_again(told: Memory, open_memory: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = open_memory(embedder=HASHED)
    memory.search("warm", user_id="other")
    encoder = kernel_of(memory).embedding.embedder
    asked: list[str] = []
    monkeypatch.setattr(encoder, "embed", counting(asked, encoder.embed))
    monkeypatch.setattr(encoder, "embed_batch", counting(asked, encoder.embed_batch))
    assert found(memory, "harbour tea")
    assert set(asked) == {"harbour tea"}, "the question alone"


def counting(asked: list[str], method: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def call(texts: Any) -> Any:
        asked.extend([texts] if isinstance(texts, str) else texts)
        return method(texts)

    return call


@pytest.mark.parametrize(
    "damage",
    [
        ("UPDATE recall_1 SET data = CAST(x'09' || substr(data, 2) AS BLOB)",),
        ("UPDATE recall_1 SET data = substr(data, 1, 5)",),
        ("DELETE FROM recall_1",),
        ("DELETE FROM words_1",),
        ("DELETE FROM words_1 WHERE text IN ('tea', 'harbour')",),
        ("DELETE FROM word_vectors_1",),
    ],
    ids=["another version", "cut off", "no bytes", "no words", "some words missing", "no vectors"],
)
def test_what_is_missing_or_damaged_is_made_anew(
    told: Memory, open_memory: Open, monkeypatch: pytest.MonkeyPatch, damage: tuple[str, ...]
) -> None:
    expected = from_texts(open_memory, monkeypatch)
    change(told, *damage)
    assert answers(open_memory(embedder=HASHED)) == expected
    assert answers(open_memory(embedder=HASHED)) == expected, "again, from what the first one kept"


def test_a_row_that_an_earlier_perdure_changed_is_read_from_its_text(told: Memory, open_memory: Open) -> None:
    change(
        told,
        "UPDATE rows_1 SET memory = 'User likes espresso', updated_at = '2099-01-01T00:00:00.000000+00:00' "
        f"WHERE memory = '{TEA}'",
    )
    memory = open_memory(embedder=HASHED)
    assert found(memory, "espresso")[0] == "User likes espresso"
    index = indexes_of(memory)._held[Scope(user_id="ana")].index
    assert not len(index.postings("green")[0]) or TEA not in found(memory, "green tea")


def test_what_is_forgotten_is_in_no_byte_of_the_index(told: Memory, open_memory: Open, tmp_path: Path) -> None:
    told.add_facts(["User keeps a quagga called Xyzzyx"], **ANA)
    reader = open_memory(embedder=HASHED)
    assert found(reader, "quagga")
    reader.close()
    told.forget(query="quagga", threshold=0.3, **ANA)
    told.close()
    for file in (tmp_path / "memory").iterdir():
        if file.is_file():
            data = file.read_bytes().lower()
            assert b"quagga" not in data and b"xyzzyx" not in data, file
