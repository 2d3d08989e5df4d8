"""What is made of a row when it is written: on the rows that need it, remade wherever rows are, and never shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Memory
from perdure.backends.vector_stores.base import Point, Vector
from perdure.domain.errors import EmbeddingError
from perdure.domain.filter import eq
from perdure.domain.memory import LIVE
from perdure.engine.core.embedding import CUES, DERIVED, MOST, PASSAGES, cues_of, pack_cues, read_cues, without_derived
from perdure.frontends.library.portal import PORTAL
from perdure.pipeline.prompting.quoting import DIRECTIVES
from perdure.pipeline.retrieval.features import Cues, passages
from tests.conftest import Open
from tests.engine.core.adversarial_memories import ANA, HASHED
from tests.engine.read.test_recall_index import found, kernel_of
from tests.engine.read.test_recall_search import DEEP, points
from tests.engine.transfer.test_copy import copied
from tests.engine.transfer.test_reindex import NEW, reindexed
from tests.engine.transfer.transfers import export, load

GERMAN = "Please always answer in German."
LIKED = "I prefer short answers to long ones."
TIMED = "Yesterday Ann and Bob met in Oslo on Monday."
PLAIN = "a boat on the lake"


def say(memory: Memory, text: str, **message: Any) -> str:
    (event,) = memory.add([{"role": "user", "content": text, **message}], infer=False, **ANA).results
    assert event.id is not None
    return event.id


def live(memory: Memory) -> dict[str, dict[str, Any]]:
    """The payloads of the rows that stand, by their texts."""
    kernel = kernel_of(memory)
    PORTAL.call(kernel.ready())
    page = PORTAL.call(kernel.store.list(kernel.collection, eq("state", LIVE)))
    return {point.payload["memory"]: point.payload for point in page.points}


def cues(memory: Memory, text: str) -> str | None:
    kept: str | None = live(memory)[text].get(CUES)
    return kept


# ------------------------------------------------------------------ which rows


def test_messages_have_cues_and_facts_have_none(quick: Memory) -> None:
    quick.add_facts(["User wants the assistant to answer in German", "User lives in Oslo"], **ANA)
    quick.add("I have a cat.", **ANA)
    for text in (GERMAN, LIKED, PLAIN):
        say(quick, text)
    say(quick, TIMED, name="Ann")
    kept = points(quick)
    assert {text: payload[CUES] for text, payload in kept.items() if CUES in payload} == {
        GERMAN: "0.0.d",
        LIKED: "0.0.p",
        PLAIN: "0.0.",
        TIMED: pack_cues(read_cues(kept[TIMED])),
        "I have a cat.": "0.0.",
    }
    assert read_cues(kept[TIMED]).temporal > 0 and read_cues(kept[TIMED]).proper > 0
    assert not any(PASSAGES in payload for payload in kept.values())


@pytest.mark.parametrize("role", ["assistant", "system", "tool"])
def test_what_others_say_instructs_nobody(quick: Memory, role: str) -> None:
    say(quick, GERMAN, role=role)
    assert cues(quick, GERMAN) == "0.0."


def test_searched_episodes_have_cues_and_passages(open_memory: Open) -> None:
    memory = open_memory(embedder=HASHED, episodes="search")
    memory.add(f"{GERMAN} {DEEP}", **ANA)
    (row,) = (payload for payload in points(memory).values() if payload["kind"] == "messages")
    assert row[CUES].endswith(".d") and row[PASSAGES]


def test_a_book_has_no_more_passages_than_are_allowed(quick: Memory) -> None:
    book = " ".join(f"Chapter {number} tells of the sea and of ship{number}." for number in range(900))
    assert len(passages(book)) > MOST
    say(quick, book)
    say(quick, DEEP)
    packed = {text: len(payload[PASSAGES]) for text, payload in points(quick).items()}
    assert packed[book] == pytest.approx(packed[DEEP] * MOST / len(passages(DEEP)), rel=0.05)


def test_a_row_that_no_longer_stands_has_neither(quick: Memory) -> None:
    id = say(quick, f"{GERMAN} {DEEP}")
    quick.update(id, PLAIN)
    kept = points(quick)
    assert kept[PLAIN][CUES] == "0.0." and PASSAGES not in kept[PLAIN]
    version = kept[f"{GERMAN} {DEEP}"]
    assert version["state"] == "version" and not DERIVED & set(version)


# ------------------------------------------------------------------ remade


def test_update_and_undo_remake_them(quick: Memory) -> None:
    id = say(quick, PLAIN)
    quick.update(id, GERMAN)
    assert cues(quick, GERMAN) == "0.0.d"
    quick.update(id, LIKED)
    assert cues(quick, LIKED) == "0.0.p"
    quick.undo(quick.history(id)[-1].id)
    assert cues(quick, GERMAN) == "0.0.d"
    quick.delete(id)
    quick.undo(quick.history(id)[-1].id)
    assert cues(quick, GERMAN) == "0.0.d"


def test_undo_makes_passages_anew(quick: Memory) -> None:
    id = say(quick, DEEP)
    before = live(quick)[DEEP][PASSAGES]
    quick.update(id, PLAIN)
    quick.undo(quick.history(id)[-1].id)
    assert live(quick)[DEEP][PASSAGES] == before
    quick.update(id, PLAIN)
    quick.rollback(to=quick.history(id)[0].timestamp, **ANA)
    assert live(quick)[DEEP][PASSAGES] == before


@pytest.fixture
def told(tmp_path: Path) -> Path:
    with Memory({"path": tmp_path / "told", "embedder": HASHED}) as memory:
        say(memory, GERMAN)
        say(memory, TIMED, name="Ann")
        say(memory, DEEP)
    return tmp_path / "told"


def derived(path: Path, **config: Any) -> dict[str, dict[str, Any]]:
    with Memory({"path": path, "embedder": HASHED, **config}) as memory:
        assert [line for line in memory.context("x", **ANA).split("\n") if DIRECTIVES in line]
        return {
            text: {key: value for key, value in payload.items() if key in DERIVED}
            for text, payload in points(memory).items()
        }


def test_reindex_keeps_cues_and_makes_passages_anew(told: Path) -> None:
    before = derived(told)
    reindexed(told)
    after = derived(told, **NEW)
    assert {text: kept[CUES] for text, kept in after.items()} == {text: kept[CUES] for text, kept in before.items()}
    assert len(after[DEEP][PASSAGES]) < len(before[DEEP][PASSAGES]), "a third of the dimensions"


@pytest.mark.parametrize("way", ["import", "copy"])
def test_import_and_copy_have_the_same(told: Path, way: str) -> None:
    other = told.parent / "other"
    if way == "import":
        load(other, export(told))
    else:
        copied(told, {"path": other, "embedder": HASHED})
    assert derived(other) == derived(told)


def test_a_line_that_brings_its_own_cues_is_not_believed(told: Path) -> None:
    lines = [json.loads(line) for line in export(told)]
    for line in lines:
        if line.get("record") == "memory":
            line[CUES] = "9.9.dp"
    other = told.parent / "other"
    load(other, [json.dumps(line) for line in lines])
    with Memory({"path": other, "embedder": HASHED}) as memory:
        assert "9.9.dp" not in {payload.get(CUES) for payload in points(memory).values()}


# ------------------------------------------------------------------ never shown


def test_they_are_in_no_answer_history_or_export(told: Path) -> None:
    with Memory({"path": told, "embedder": HASHED}) as memory:
        results = memory.search("Oslo", explain=True, hydrate=True, **ANA)
        shown = [results.model_dump(), memory.get_all(**ANA).model_dump()]
        for item in memory.get_all(**ANA).results:
            got = memory.get(item.id)
            assert got is not None
            shown += [got.model_dump(), *(record.model_dump() for record in memory.history(item.id))]
            memory.update(item.id, f"{item.memory} {DEEP}")
            shown += [record.model_dump() for record in memory.history(item.id)]
    text = json.dumps(shown, default=str) + "".join(export(told))
    assert DEEP[:60] in text
    assert not any(f'"{key}"' in text for key in DERIVED)


def test_metadata_of_these_names_is_the_users_own(quick: Memory) -> None:
    """Metadata lies apart from a row's own fields."""
    quick.add(GERMAN, infer=False, metadata={CUES: "mine", PASSAGES: 7}, **ANA)
    (item,) = quick.get_all(**ANA).results
    assert item.metadata == {CUES: "mine", PASSAGES: 7}
    assert [each.memory for each in quick.search("German", filters={CUES: "mine"}, **ANA).results] == [GERMAN]
    assert DIRECTIVES in quick.context("x", **ANA)


# ------------------------------------------------------------------ failures and older stores


def test_where_passages_cannot_be_embedded_the_memory_is_stored_and_found(
    quick: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = quick._memory._engine.kernel.embedding.embedder
    embed_batch, embed = embedder.embed_batch, embedder.embed
    pieces = set(passages(DEEP))

    async def batch(texts: Sequence[str]) -> Any:
        if pieces & set(texts):
            raise EmbeddingError("no passages today")
        return await embed_batch(texts)

    async def one(text: str) -> Vector:
        if text in pieces:
            raise EmbeddingError("no passage today")
        return await embed(text)

    monkeypatch.setattr(embedder, "embed_batch", batch)
    monkeypatch.setattr(embedder, "embed", one)
    result = quick.add(DEEP, infer=False, **ANA)
    assert [event.event for event in result.results] == ["ADD"]
    kept = points(quick)[DEEP]
    assert PASSAGES not in kept and kept[CUES] == "0.0."
    assert found(quick, "thistles") == [DEEP]
    assert quick.search("Which thistles does Kibo eat?", **ANA).results[0].memory == DEEP


def without_cues(memory: Memory) -> None:
    """The rows as a store has them that was written before there were cues."""
    kernel = kernel_of(memory)
    page = PORTAL.call(kernel.store.list(kernel.collection, with_vectors=True))
    rows = [Point(point.id, point.vector, without_derived(point.payload)) for point in page.points]
    PORTAL.call(kernel.store.apply(kernel.collection, rows))


def test_rows_of_older_stores_are_read_all_the_same(quick: Memory) -> None:
    for text in (GERMAN, PLAIN, DEEP):
        say(quick, text)
    before = quick.context("boat", **ANA), found(quick, "thistles")
    assert "- " in before[0] and DIRECTIVES in before[0]
    without_cues(quick)
    quick._memory._engine.read.forget_copies()
    assert not any(DERIVED & set(payload) for payload in points(quick).values())
    assert (quick.context("boat", **ANA), found(quick, "thistles")) == before


# ------------------------------------------------------------------ cues as text

CUE = st.builds(
    Cues,
    temporal=st.integers(0, 10**6),
    proper=st.integers(0, 10**6),
    directive=st.booleans(),
    preference=st.booleans(),
)


@given(kept=CUE)
def test_cues_come_back_from_their_text(kept: Cues) -> None:
    assert cues_of({CUES: pack_cues(kept), "memory": "anything", "role": "user"}) == kept


@given(text=st.text(max_size=80), kept=st.text(max_size=12) | st.none() | st.integers())
def test_cues_that_are_none_are_read_out_of_the_text(text: str, kept: object) -> None:
    payload = {"memory": text, "role": "user", CUES: kept}
    if isinstance(kept, str) and kept.count(".") == 2:
        return
    assert cues_of(payload) == read_cues({"memory": text, "role": "user"})


@given(payload=st.dictionaries(st.sampled_from(["memory", "role", "speaker", "state"]), st.text() | st.integers()))
def test_any_row_has_cues(payload: dict[str, Any]) -> None:
    read = read_cues(payload)
    assert cues_of({**payload, CUES: pack_cues(read)}) == read
