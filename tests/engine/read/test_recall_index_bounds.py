"""What the indexes of scopes take at most, however many scopes are asked for and however much they grow."""

from __future__ import annotations

import pytest

from perdure import Memory
from perdure.engine.read import fused
from tests.conftest import Open
from tests.engine.core.adversarial_memories import ANA, HASHED
from tests.engine.read.test_recall_index import HOME, TEA, drown, found, indexes_of, kernel_of, pair

__all__ = ["pair"]


def test_scopes_longest_unused_make_room(open_memory: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = open_memory(embedder=HASHED)
    indexes = indexes_of(memory)
    for user in ("ana", "ben", "ana", "cem"):
        memory.add_facts([TEA, HOME, f"User is called {user}"], user_id=user)
        assert len(found(memory, "tea lisbon", user_id=user)) == 2
        if user == "ben":
            monkeypatch.setattr(fused, "MOST_BYTES", int(2.5 * indexes._size / 2) + indexes._shared.size)
    assert [scope.user_id for scope in indexes._held] == ["ana", "cem"]
    assert indexes._size == sum(held.size for held in indexes._held.values())


def test_however_many_scopes_are_asked_their_indexes_keep_within_their_bytes(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_memory(embedder=HASHED)
    indexes = indexes_of(memory)
    most = 400_000
    monkeypatch.setattr(fused, "MOST_BYTES", most)
    for number in range(60):
        user = f"user{number % 30}"
        memory.add_facts([f"User likes tea of the kind k{number}", f"User was in town t{number}"], user_id=user)
        assert found(memory, f"tea k{number}", user_id=user)[0] == f"User likes tea of the kind k{number}"
        held = [each.index.size for each in indexes._held.values()]
        assert sum(held) == indexes._size <= most - indexes._shared.size
    assert 1 < len(held) < 30
    drown(memory)
    assert found(memory, "espresso 7")[0] == "espresso 7"
    assert [scope.user_id for scope in indexes._held] == [ANA["user_id"]], "one that is larger than all stands alone"
    indexes.forget()
    assert (indexes._size, len(indexes._held)) == (0, 0)


@pytest.mark.parametrize("bound", ["MOST_MEMORIES", "MOST_BYTES_OF_ONE"])
def test_a_scope_that_has_grown_too_large_is_let_go(
    pair: tuple[Memory, Memory], monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    one, _ = pair
    assert found(one, "tea")[0] == TEA
    monkeypatch.setattr(fused, bound, 3 if bound == "MOST_MEMORIES" else 3 * (4 * 384 + 2_500))
    assert found(one, "tea")[0] == TEA and indexes_of(one)._held
    one.add_facts(["User plays the theremin"], **ANA)
    assert found(one, "theremin")[0] == "User plays the theremin"
    assert not indexes_of(one)._held and not indexes_of(one)._size


def test_words_of_an_embedder_that_is_not_asked_for_them_take_no_room(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_memory(embedder=HASHED)
    monkeypatch.setattr(type(kernel_of(memory).embedding.embedder), "local", False)
    drown(memory)
    assert found(memory, "espresso 7")[0] == "espresso 7"
    (held,) = indexes_of(memory)._held.values()
    assert len(held.index.words) > 100
    assert len(held.index.words._vectors) == 1
