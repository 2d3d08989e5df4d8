"""Many facts at once, and decisions that touch the same memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from perdure import Memory
from perdure.backends.embedders.hashed import HashedEmbedder
from perdure.domain.fact import Decision, Fact, Neighbour
from perdure.engine.write.curator import Judgement, Reading, ReadRequest, Renewed
from tests.conftest import Open
from tests.engine.core.adversarial_memories import ANA, HASHED, texts

# ------------------------------------------------------------------ batches


class Named:
    """A curator that is told what to decide, by the fact's text."""

    one_at_a_time = False
    asks_again = False

    def __init__(self, **decisions: list[Decision]) -> None:
        self.decisions = decisions
        self.seen: list[int] = []

    async def judge(self, facts: Sequence[Fact], neighbours: Sequence[Sequence[Neighbour]], **_: Any) -> Judgement:
        self.seen += [len(near) for near in neighbours]
        return Judgement([self.decisions.get(fact.text, [Decision(event="ADD", text=fact.text)]) for fact in facts])

    async def renewed(self, *_: Any) -> Renewed:
        return Renewed()


class Reader(Named):
    """The same, which reads each phrase between commas as a fact."""

    async def read(self, request: ReadRequest) -> Reading:
        return Reading(
            [Fact(text=text, sources=(0,)) for message in request.messages for text in message.content.split(", ")]
        )


def set_curator(memory: Memory, curator: Named) -> None:
    memory._memory._engine.kernel.curator = curator  # type: ignore[assignment]  # it is asked to judge alone


@pytest.mark.parametrize("updates", ["in_place", "supersede"])
def test_no_fact_is_lost_with_a_memory_that_another_took(open_memory: Open, updates: str) -> None:
    memory = open_memory(embedder=HASHED, updates=updates)
    id = memory.add("old", infer=False, **ANA).results[0].id
    taken = [Decision(event="DELETE", target=id), Decision(event="ADD", text="one")]
    set_curator(memory, Named(one=taken, two=[Decision(event="UPDATE", target=id, text="old and two")]))
    events = memory.add_facts(["one", "two"], **ANA).results
    assert [event.event for event in events] == ["DELETE", "ADD", "ADD"]
    assert texts(memory) == ["one", "two"]


def test_two_late_facts_about_one_memory_are_both_kept(open_memory: Open) -> None:
    memory = open_memory(embedder=HASHED)
    id = memory.add("new", infer=False, timestamp="2020-01-01", **ANA).results[0].id
    update = [Decision(event="UPDATE", target=id, text="mixed with the new"), Decision(event="DELETE", target=id)]
    set_curator(memory, Reader(one=update, two=update))
    events = memory.add("one, two", timestamp="2010-01-01", **ANA).results
    assert [(event.event, event.memory) for event in events] == [("ADD", "one"), ("ADD", "two")]
    assert [item.valid_to for item in memory.get_all(include_past=True, **ANA).results if item.id != id] == [
        "2020-01-01T00:00:00.000000+00:00"
    ] * 2


def test_the_vector_is_that_of_the_text_that_is_stored(open_memory: Open) -> None:
    """A model may reword what it adds."""
    memory = open_memory(embedder=HASHED)
    set_curator(memory, Named(one=[Decision(event="ADD", text="entirely different words")]))
    memory.add_facts(["one"], **ANA)
    (found,) = memory.search("entirely different words", **ANA).results
    assert found.similarity == pytest.approx(1.0)


@pytest.mark.covers("T37")
def test_a_reworded_text_that_cannot_be_embedded_costs_that_fact_alone(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """000 §14.3, T37."""
    from perdure import EmbeddingError

    memory = open_memory(embedder=HASHED)
    id = memory.add("old", infer=False, **ANA).results[0].id
    real = HashedEmbedder.embed_batch

    async def fails(self: HashedEmbedder, batch: Sequence[str]) -> Any:
        if "merged" in batch:
            raise EmbeddingError("no")
        return await real(self, batch)

    monkeypatch.setattr(HashedEmbedder, "embed_batch", fails)
    set_curator(memory, Named(one=[Decision(event="UPDATE", target=id, text="merged")]))
    result = memory.add_facts(["one", "two"], **ANA)
    assert [event.memory for event in result.results] == ["two"]
    assert any("merged" in warning for warning in result.warnings)


def test_a_decision_whose_target_has_changed_is_asked_again(open_memory: Open) -> None:
    """reconcile="per_fact": facts decided side by side mean the same memory, and none may overwrite the other."""

    class Merging(Named):
        async def judge(self, facts: Sequence[Fact], neighbours: Sequence[Sequence[Neighbour]], **_: Any) -> Judgement:
            self.seen.append(len(facts))
            decided = []
            for fact, near in zip(facts, neighbours, strict=True):
                old = next(each.item for each in near if each.item.memory.startswith("list"))
                decided.append([Decision(event="UPDATE", target=old.id, text=f"{old.memory} {fact.text}")])
            return Judgement(decided)

    memory = open_memory(embedder=HASHED)
    memory.add("list:", infer=False, **ANA)
    curator = Merging()
    curator.asks_again = True
    set_curator(memory, curator)
    memory.add_facts(["one", "two", "three"], **ANA)
    assert texts(memory) == ["list: one two three"]
    assert curator.seen == [3, 1, 1]


def test_an_event_tells_which_memory_was_replaced(open_memory: Open) -> None:
    """With a new id for the new text, the event names both."""
    memory = open_memory(embedder=HASHED, updates="supersede")
    id = memory.add_facts(["one"], **ANA).results[0].id
    set_curator(memory, Named(two=[Decision(event="UPDATE", target=id, text="two")]))
    event = memory.add_facts(["two"], **ANA).results[0]
    assert event.event == "UPDATE" and event.id != id and event.replaced_id == event["replaced_id"] == id
    undone = memory.undo(event.event_id or "").results[0]
    assert (undone.id, undone.replaced_id) == (id, event.id)


def test_nothing_is_stored_of_a_request_to_forget(open_memory: Open) -> None:
    memory = open_memory(embedder=HASHED)
    set_curator(memory, Named(**{"User asked to forget X": [Decision(event="ADD", text="User asked to forget X")]}))
    assert memory.add_facts(["User asked to forget X"], **ANA).results == []
    assert texts(memory) == []


def test_each_fact_of_a_great_batch_meets_a_few_neighbours(open_memory: Open) -> None:
    """The cost of a batch grows with its facts, not with their square."""
    memory = open_memory(embedder=HASHED)
    curator = Named()
    curator.one_at_a_time = True
    set_curator(memory, curator)
    memory.add_facts([f"User owns thing {number} of many" for number in range(400)], **ANA)
    assert len(curator.seen) == 400 and max(curator.seen) <= 60
    assert len(texts(memory)) == 400
