"""AgentRuntime: a vector that a caller gives stays with its memory; one made of the text is made anew with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure import AgentRuntime
from tests.frontends.library.runtime.runtimes import awaited, opened, said


@pytest.mark.covers("Z13")
@awaited
async def test_a_vector_of_ones_own_stays_with_a_new_text_until_another_is_given(folder: Path) -> None:
    own, other = ([1.0 if place == axis else 0.0 for place in range(384)] for axis in (3, 7))
    async with opened(folder) as runtime:
        id = await runtime.create_memory(said("The kettle is blue", embedding=own), "facts")
        assert await runtime.update_memory({"id": id, "content": {"text": "The kettle is red"}})
        assert await vector_of(runtime, id) == own
        read = await runtime.get_memory_by_id(id)
        assert read is not None
        read.content = {"text": "The kettle is green"}
        assert await runtime.update_memory(read)
        assert await vector_of(runtime, id) == own, "as it was read and given back"
        (hit,) = await runtime.search_memories(table_name="facts", embedding=own, match_threshold=0.9)
        assert hit.text == "The kettle is green"
        assert await runtime.update_memory({"id": id, "content": {"text": "It is gone"}, "embedding": other})
        assert await vector_of(runtime, id) == other
        assert await runtime.update_memory({"id": id, "content": {"text": ""}})
        assert await vector_of(runtime, id) == other, "nor does a memory without text lose it"


@pytest.mark.covers("Z24")
@awaited
async def test_a_vector_that_was_made_of_the_text_is_made_anew_with_it(folder: Path) -> None:
    async with opened(folder) as runtime:
        made = await runtime.add_embedding_to_memory(said("The kettle is blue"))
        ids = [await runtime.create_memory(made, "facts"), await runtime.create_memory(said("A red ladder"), "facts")]
        for id in ids:
            assert await runtime.update_memory({"id": id, "content": {"text": "A green drill"}})
            anew = await runtime.use_model("TEXT_EMBEDDING", {"text": "A green drill"})
            assert await vector_of(runtime, id) == pytest.approx(anew, abs=1e-5)


async def vector_of(runtime: AgentRuntime, id: str) -> list[float] | None:
    found = await runtime.get_memory_by_id(id)
    assert found is not None
    return None if found.embedding is None else list(found.embedding)
