"""Fused search through the front door: every argument, every kind of memory, and what it is without its helpers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure import AgentRuntime, Memory
from perdure.backends.vector_stores.base import Point
from perdure.domain.errors import InvalidInputError
from perdure.domain.filter import eq
from perdure.domain.scope import Scope
from perdure.engine.core.embedding import PASSAGES
from perdure.engine.maintenance.repair import Rebuilder
from perdure.engine.read.search import FAINT, FIRST
from perdure.frontends.library.portal import PORTAL
from perdure.pipeline.retrieval.features import passages, unpack
from tests.conftest import Open
from tests.engine.core.adversarial_memories import ANA, HASHED
from tests.engine.read.test_recall_index import CAT, HOME, TEA, found, kernel_of
from tests.engine.transfer.test_copy import copied
from tests.engine.transfer.test_reindex import NEW, reindexed
from tests.engine.transfer.transfers import export, load

TALK = [
    {"role": "user", "name": "Ann", "content": "What did you drink at the harbour?", "timestamp": "2025-03-01"},
    {"role": "user", "name": "Bob", "content": "A pot of chamomile.", "timestamp": "2025-03-01T00:01:00Z"},
    {"role": "user", "name": "Ann", "content": "My sister paints doors.", "timestamp": "2025-06-01"},
]
FILLER = [f"We talked of place{number} and saw some of thing{number} there." for number in range(110)]
NEEDLE = "Kibo the zebra eats purple thistles."
DEEP = " ".join([*FILLER[:90], NEEDLE, *FILLER[90:]])


@pytest.fixture
def told(quick: Memory) -> Memory:
    quick.add_facts([TEA, HOME, CAT], **ANA)
    return quick


def points(memory: Memory) -> dict[str, dict[str, Any]]:
    """The payloads of all rows by their texts."""
    kernel = kernel_of(memory)
    PORTAL.call(kernel.ready())
    page = PORTAL.call(kernel.store.list(kernel.collection))
    return {point.payload["memory"]: point.payload for point in page.points}


def rows(memory: Memory, kind: str) -> list[Point]:
    kernel = kernel_of(memory)
    return PORTAL.call(kernel.store.list(kernel.collection, eq("kind", kind))).points


# ------------------------------------------------------------------ limit, threshold, filters, types


def test_limit(told: Memory) -> None:
    for number in range(130):
        told.add(f"tea of kind {number}", infer=False, **ANA)
    query = "what tea of which kind"
    assert len(found(told, query, limit=1)) == 1
    assert len(found(told, query)) == 100
    everything = found(told, query, limit=100_000)
    assert len(everything) == 131, "all but the home and the cat"
    assert found(told, query, limit=100) == everything[:100]
    with pytest.raises(InvalidInputError, match="limit"):
        told.search(query, limit=0, **ANA)


def test_scores_fall_from_at_most_one_and_a_threshold_cuts_them(told: Memory) -> None:
    told.add("green tea and black tea", infer=False, **ANA)
    told.add("a green door", infer=False, **ANA)
    results = told.search("green tea", threshold=0, **ANA).results
    scores = [item.score or 0.0 for item in results]
    assert 1 >= scores[0] > scores[-1] >= 0
    assert scores == sorted(scores, reverse=True)
    middle = (scores[0] + scores[-1]) / 2
    kept = told.search("green tea", threshold=middle, **ANA).results
    assert [item.id for item in kept] == [item.id for item in results if (item.score or 0.0) >= middle]
    shown = told.search("green tea", **ANA).results
    assert shown == [item for item in results if (item.score or 0.0) >= FAINT * scores[0]], (
        "none that is faint beside it"
    )
    with pytest.raises(InvalidInputError, match="threshold"):
        told.search("green tea", threshold=1.5, **ANA)


def test_filters_are_looked_through_to_the_end(told: Memory) -> None:
    for number in range(120):
        told.add(f"tea number {number}", infer=False, metadata={"n": number}, **ANA)
    rare = {"field": "n", "operator": "in", "value": [3, 119]}
    assert sorted(found(told, "tea", filters=rare, limit=5)) == ["tea number 119", "tea number 3"]
    assert found(told, "tea", filters={"field": "n", "operator": "eq", "value": 500}) == []


def test_types_keep_only_theirs(told: Memory) -> None:
    told.add("Steep the tea for a minute", infer=False, type="procedural", **ANA)
    told.add("Tea at the harbour", infer=False, type="episodic", **ANA)
    assert found(told, "tea", types=["procedural"]) == ["Steep the tea for a minute"]
    assert len(found(told, "tea", types=["procedural", "episodic"])) == 2
    assert len(found(told, "tea")) == 3
    assert found(told, "tea", types=[]) == found(told, "tea")


@pytest.mark.parametrize("more", [{"filters": {"field": "n", "operator": "eq", "value": 1}}, {"types": ["procedural"]}])
def test_what_is_not_brought_back_covers_nothing(told: Memory, more: dict[str, Any]) -> None:
    result = told.search("tea", **more, **ANA)
    assert (result.results, result.coverage) == ([], 0)


def test_coverage_tells_what_is_held(told: Memory) -> None:
    assert told.search("tea", **ANA).coverage == pytest.approx(1)
    result = told.search("tea zebra", **ANA)
    assert result.coverage < 0.5
    assert result.facets["words"] == {"tea": 1.0, "zebra": 0.0}
    assert told.search("zebra", user_id="nobody").coverage == 0


# ------------------------------------------------------------------ time


def test_what_has_run_out_comes_when_asked_for_and_is_counted_when_not(told: Memory) -> None:
    told.add("old tea", infer=False, expires_at="2020-01-01", **ANA)
    told.add("fresh tea", infer=False, expires_at="2999-01-01", **ANA)
    result = told.search("old fresh tea", **ANA)
    assert {"old tea", "fresh tea"} & {item.memory for item in result.results} == {"fresh tea"}
    assert result.held_back == 1
    past = told.search("old fresh tea", include_past=True, **ANA)
    assert "old tea" in [item.memory for item in past.results]
    assert past.held_back == 0


def test_what_was_true_before_is_past(quick: Memory) -> None:
    quick.add("I live in Porto.", timestamp="2025-05-01", **ANA)
    quick.add("I live in Lisbon.", timestamp="2024-05-01", **ANA)
    query = "lives in Porto or Lisbon"
    assert found(quick, query) == ["User lives in Porto"]
    assert quick.search(query, **ANA).held_back == 1
    assert sorted(found(quick, query, include_past=True)) == ["User lives in Lisbon", "User lives in Porto"]
    assert found(quick, query, as_of="2024-06-01") == ["User lives in Lisbon"]


def test_as_of_brings_the_text_of_that_time_under_the_same_id(quick: Memory) -> None:
    quick.add("I live in Porto.", timestamp="2025-05-01", **ANA)
    quick.add("I moved to Faro.", timestamp="2026-01-01", **ANA)
    now = quick.search("Porto Faro", **ANA)
    assert [item.memory for item in now.results] == ["User moved to Faro"]
    assert now.held_back == 1, "the text that it replaced"
    then = quick.search("Porto Faro", as_of="2025-06-01", **ANA)
    assert [item.memory for item in then.results] == ["User lives in Porto"]
    assert then.results[0].id == now.results[0].id
    assert quick.search("Porto", as_of="2024-01-01", **ANA).results == []
    assert now == quick.search("Porto Faro", **ANA), "looking back changes nothing"


def test_reference_time_is_the_now_of_the_question(told: Memory) -> None:
    told.add("tea in the snow", infer=False, timestamp="2020-12-20", **ANA)
    told.add("tea in the sand", infer=False, timestamp="2023-07-01", **ANA)
    results = told.search("the tea of last year", reference_time="2021-06-01", explain=True, **ANA).results
    explanation = results[0].explanation or {}
    assert results[0].memory == "tea in the snow"
    assert explanation["time_window"]["start"].startswith("2020-01-01")
    assert explanation["shares"]["date"] > 0
    later = told.search("the tea of last year", reference_time=datetime(2024, 2, 1, tzinfo=UTC), **ANA).results
    assert later[0].memory == "tea in the sand"


def test_a_time_window_stands_in_place_of_what_the_question_says(told: Memory) -> None:
    told.add("tea in the snow", infer=False, timestamp="2020-12-20", **ANA)
    told.add("tea in the sand", infer=False, timestamp="2023-07-01", **ANA)
    window = ("2023-01-01", "2024-01-01")
    results = told.search("the tea of 2020", time_window=window, explain=True, **ANA).results
    assert results[0].memory == "tea in the sand"
    assert (results[0].explanation or {})["time_window"]["start"] == "2023-01-01T00:00:00+00:00"
    assert "tea in the snow" in [item.memory for item in results], "it prefers, and shuts nothing out"
    open_ended = told.search("tea", time_window=("2023-01-01", None), **ANA).results
    assert open_ended[0].memory != "tea in the snow"


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"time_window": ("2025-01-01", "2024-01-01")}, "time_window"),
        ({"time_window": ("2025-01-01", "2025-01-01")}, "time_window"),
        ({"time_window": (None, None)}, "time_window"),
        ({"time_window": "2025-01-01"}, "time_window"),
        ({"time_window": ("2025-01-01",)}, "time_window"),
        ({"time_window": ("2025-13-01", None)}, "time_window[0]"),
        ({"time_window": (None, "soon")}, "time_window[1]"),
        ({"reference_time": "soon"}, "reference_time"),
        ({"as_of": "soon"}, "as_of"),
        ({"preset": "bets"}, "preset"),
        ({"rerank": True}, "rerank"),
        ({"rerank": "yes"}, "rerank"),
        ({"types": "procedural"}, "types"),
        ({"explain": 1}, "explain"),
        ({"hydrate": "yes"}, "hydrate"),
        ({"include_past": None}, "include_past"),
    ],
)
def test_a_wrong_argument_is_named(told: Memory, arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInputError, match=field.partition("[")[0]) as caught:
        told.search("tea", **arguments, **ANA)
    assert caught.value.field == field


# ------------------------------------------------------------------ history, explanation


@pytest.mark.covers("V20")
def test_history_lends_its_words_to_a_question_that_cannot_stand_alone(told: Memory) -> None:
    said = [{"role": "user", "content": "my cat Miso"}, {"role": "assistant", "content": "Lisbon is lovely"}]
    assert found(told, "how much?", history=said)[0] == CAT
    assert HOME not in found(told, "how much?", history=said)
    assert found(told, "where is the home in Lisbon?", history=said)[0] == HOME


def test_the_shares_of_an_explanation_sum_to_its_score(told: Memory) -> None:
    told.add("Always answer in French.", infer=False, **ANA)
    told.add("tea on Monday with Zoe?", infer=False, timestamp="2025-01-06", **ANA)
    results = told.search("Can you write about tea in January 2025?", explain=True, **ANA).results
    assert len(results) > 2
    for place, item in enumerate(results):
        explanation = item.explanation or {}
        assert sum(explanation["shares"].values()) == pytest.approx(explanation["fused"], abs=2e-3)
        assert explanation["rank"] == place + 1
        assert explanation["of"] >= len(results)
        assert explanation["score"] == item.score
        assert explanation["similarity"] == item.similarity
        assert explanation["preset"] == "best"
    assert all(item.explanation is None for item in told.search("tea", **ANA).results)


def test_words_of_the_question_and_names_are_explained(open_memory: Open) -> None:
    memory = open_memory(embedder=HASHED, episodes="search")
    memory.add(TALK, **ANA)
    explanation = memory.search("What did Bob say of chamomile?", explain=True, **ANA).results[0].explanation or {}
    assert explanation["named"] == ["bob"]
    assert explanation["words"] == ["chamomile"]
    assert explanation["matched_by"] in ("lexical", "dense", "likeness")


def test_the_score_is_that_of_the_best_evidence(told: Memory) -> None:
    result = told.search("green tea", **ANA).results[0]
    assert result.score == pytest.approx(1.0), "it holds every word that was asked for"
    assert result.similarity == pytest.approx(2 / np.sqrt(2 * 4), abs=1e-5)
    half = told.search("green zebra", **ANA).results[0]
    assert half.score == pytest.approx(0.5, abs=0.01)


# ------------------------------------------------------------------ messages


def test_messages_are_found_by_their_neighbours_words(open_memory: Open) -> None:
    memory = open_memory(embedder=HASHED, episodes="search")
    memory.add(TALK, **ANA)
    results = memory.search("What did Bob drink at the harbour?", explain=True, **ANA).results
    answer = next(item for item in results if item.memory == "A pot of chamomile.")
    assert (answer.kind, answer.sources) == ("messages", (answer.id,))
    assert (answer.explanation or {})["shares"]["lexical"] > 0, "the turn before has drink and harbour"
    apart = [item for item in results if item.memory == "My sister paints doors."]
    assert all("lexical" not in (item.explanation or {})["shares"] for item in apart), "months later"


@pytest.mark.parametrize(("episodes", "is_searched"), [("words", True), ("search", True), ("notes", False)])
def test_messages_are_searched_only_where_they_are_to_be(open_memory: Open, episodes: str, is_searched: bool) -> None:
    memory = open_memory(embedder=HASHED, episodes=episodes)
    memory.add(TALK, **ANA)
    kinds = {item.kind for item in memory.search("chamomile harbour sister", **ANA).results}
    assert ("messages" in kinds) is is_searched


@pytest.fixture
def words(open_memory: Open) -> Memory:
    """A memory whose messages are searched beside facts and notes."""
    return open_memory(embedder=HASHED, episodes="words")


def test_a_fact_that_says_a_message_whole_stands_for_it(words: Memory) -> None:
    words.add("I live in Porto.", **ANA)
    assert found(words, "Where does Ana live? Porto?") == ["User lives in Porto"]


def test_a_long_question_tells_what_it_is_about(words: Memory) -> None:
    said = (
        "Since the harbour board let us keep the old ferry for the summer and we have only two captains left,"
        " which of the three piers should the night ferry to Setubal leave from?"
    )
    words.add([{"role": "assistant", "content": said}], **ANA)
    words.add([{"role": "assistant", "content": "The board of the school has met about the piano."}], **ANA)
    assert found(words, "What did the harbour board let us keep?")[0] == said


def test_a_message_for_which_a_fact_stands_is_explained(words: Memory) -> None:
    (event,) = words.add("I live in Porto.", **ANA).results
    (message,) = rows(words, "messages")
    told = words.why_not(message.id, "Where does Ana live? Porto?", **ANA)
    assert (told.reason, told.numbers["retold_by"]) == ("retold", [event.id])
    assert event.id in told.sentence


def test_a_message_that_says_more_stands_behind_its_fact(words: Memory) -> None:
    said = "My sister Rita lives in Porto, so ask whether the harbour tram stops beside the lighthouse?"
    words.add(said, **ANA)
    (fact,) = (item.memory for item in words.get_all(**ANA).results)
    assert found(words, "Where does my sister Rita live?")[:2] == [fact, said]


def test_a_message_that_only_asks_is_no_answer(words: Memory) -> None:
    words.add("Which harbour do the ferries leave from?", **ANA)
    words.add([{"role": "assistant", "content": "Good question! Which harbour do you mean, the old one?"}], **ANA)
    words.add([{"role": "assistant", "content": "All ferries leave from the old harbour. Shall I book one?"}], **ANA)
    first, *questions = found(words, "Which harbour do the ferries leave from?")
    assert first == "All ferries leave from the old harbour. Shall I book one?"
    assert len(questions) == 2


def test_words_of_an_assistant_are_found_and_enter_no_prompt(words: Memory) -> None:
    talk = [
        {"role": "user", "content": "What could I cook tonight?"},
        {"role": "assistant", "content": "Try a chickpea stew with harissa."},
    ]
    words.add(talk, **ANA)
    assert "Try a chickpea stew with harissa." in found(words, "chickpea stew harissa")
    assert "harissa" not in words.context("chickpea stew harissa", **ANA)


def test_a_deleted_memory_takes_its_message_with_it_until_it_is_undone(words: Memory) -> None:
    (event,) = words.add("My locker code is 4417.", **ANA).results
    words.delete(event.id)
    assert found(words, "locker code 4417") == []
    words.undo(words.history(event.id)[-1].id)
    assert "4417" in found(words, "locker code 4417")[0]
    assert "4417" in words.search("locker code", hydrate=True, **ANA).results[0].messages[0]["content"]


def test_what_a_person_distrusts_enters_no_prompt_as_it_was_said(words: Memory) -> None:
    said = "My sister Rita lives in Porto, so ask whether the harbour tram stops beside the lighthouse."
    (event,) = words.add(said, **ANA).results
    asked = "Where does Rita live, and the harbour tram?"
    assert "Rita" in words.context(asked, **ANA)
    words.distrust(event.id, "made up")
    assert "Rita" not in words.context(asked, **ANA)
    assert {item.quarantined for item in words.search(asked, **ANA).results} == {"made up"}
    words.trust(event.id)
    (message,) = words.search(asked, filters={"kind": "messages"}, **ANA).results
    assert message.quarantined == "made up", "it is not released with the memory"


def test_what_was_deleted_is_not_found_in_a_message_that_told_more(words: Memory) -> None:
    events = words.add("My locker code is 4417. My dog is called Rex.", **ANA).results
    deleted = next(event.id for event in events if "4417" in event.memory)
    words.delete(deleted)
    results = found(words, "locker code of the dog Rex")
    assert any("Rex" in text for text in results)
    assert not any("4417" in text for text in results)
    words.undo(words.history(deleted)[-1].id)
    assert any("4417" in text for text in found(words, "locker code of the dog Rex"))


def test_what_an_agent_deletes_goes_with_its_words(words: Memory) -> None:
    (event,) = words.add("My locker code is 4417.", agent_id="milo", **ANA).results
    asyncio.run(AgentRuntime("milo", words).delete_memory(event.id))
    assert not any("4417" in item.memory for item in words.search("locker code 4417", agent_id="milo", **ANA).results)


def test_an_expired_message_stays_away_when_the_store_is_rebuilt(words: Memory) -> None:
    said = [{"role": "assistant", "content": "The visitor badge opens the north gate."}]
    words.add(said, expires_at="2020-01-01", **ANA)
    words.add("I live in Porto.", **ANA)
    kernel = kernel_of(words)
    ledger = kernel.ledger
    assert ledger is not None
    before = {episode.content for episode in PORTAL.call(ledger.list_episodes(Scope())).episodes}
    PORTAL.call(words._memory._engine.maintenance.expire(Scope()))
    after = {episode.content for episode in PORTAL.call(ledger.list_episodes(Scope())).episodes}
    assert before - after == {"The visitor badge opens the north gate."}
    rebuilding = Rebuilder(kernel, ledger)
    PORTAL.call(kernel.store.apply(kernel.collection, (), [point.id for point in rows(words, "messages")]))
    PORTAL.call(rebuilding.messages())
    assert [point.payload["memory"] for point in rows(words, "messages")] == ["I live in Porto."]


def test_a_message_that_is_partly_out_of_date_comes_last_and_enters_no_prompt(words: Memory) -> None:
    said = "I work at a bakery beside the lighthouse. I'm allergic to sesame."
    words.add(said, **ANA)
    words.add("I work at a bookshop now.", **ANA)
    results = words.search("sesame bakery lighthouse", limit=20, **ANA).results
    assert results[-1].memory == said
    assert [item.score for item in results] == sorted((item.score for item in results), reverse=True)
    assert "lighthouse" not in words.context("sesame bakery lighthouse", **ANA)


def test_a_newer_message_does_not_lift_its_fact_over_what_answers(words: Memory) -> None:
    words.add("I'm Ana, I work at a bakery in Lisbon and I'm allergic to sesame.", **ANA)
    words.add("I changed jobs, I work at a bookshop now.", **ANA)
    assert found(words, "Is Ana allergic to sesame?")[0] == "User is allergic to sesame"


def test_what_was_corrected_by_hand_is_not_answered_with_its_old_words(words: Memory) -> None:
    (event,) = words.add("I live in Porto.", **ANA).results
    words.update(event.id, "User lives in Bergen")
    assert found(words, "Where do I live? In Porto?") == ["User lives in Bergen"]


def test_episodes_off_keep_facts_searchable_and_bring_no_messages(open_memory: Open) -> None:
    memory = open_memory(embedder=HASHED, episodes="off")
    memory.add("I live in Lisbon.", **ANA)
    result = memory.search("Lisbon", hydrate=True, **ANA).results[0]
    assert result.memory == "User lives in Lisbon"
    assert result.messages == ()


def test_a_message_stored_as_it_is_is_found_once(open_memory: Open) -> None:
    memory = open_memory(embedder=HASHED, episodes="search")
    memory.add("tea at noon", infer=False, **ANA)
    assert found(memory, "tea") == ["tea at noon"]


def test_hydrate_brings_the_messages_that_may_be_seen(quick: Memory) -> None:
    quick.add("I live in Porto.", timestamp="2025-05-01", **ANA)
    quick.add("I moved to Faro.", timestamp="2026-01-01", **ANA)
    assert quick.search("Faro", **ANA).results[0].messages is None
    item = quick.search("Faro", hydrate=True, **ANA).results[0]
    assert [message["content"] for message in item.messages or ()] == ["I live in Porto.", "I moved to Faro."]
    ledger = kernel_of(quick).ledger
    assert ledger is not None
    PORTAL.call(ledger.hide_episodes(item.sources[:1]))
    again = quick.search("Faro", hydrate=True, **ANA).results[0]
    assert [message["content"] for message in again.messages or ()] == ["I moved to Faro."]
    assert [message["content"] for message in again.model_dump()["messages"]] == ["I moved to Faro."]


def test_a_hidden_message_is_not_searched_and_comes_back_with_undo(open_memory: Open) -> None:
    memory = open_memory(embedder=HASHED, episodes="search")
    memory.add("I live in Lisbon.", **ANA)
    memory.add("Forget that I live in Lisbon.", **ANA)
    assert "I live in Lisbon." not in found(memory, "live in Lisbon")
    assert "User lives in Lisbon" not in found(memory, "live in Lisbon")


# ------------------------------------------------------------------ passages


def test_a_fact_deep_in_a_long_message_is_found_first_by_its_own_words(told: Memory) -> None:
    assert len(DEEP.split()) > 1_000
    for number in range(8):
        told.add(DEEP.replace(NEEDLE, f"Nothing of note happened in hour{number}."), infer=False, **ANA)
    told.add(DEEP, infer=False, **ANA)
    query = "Which thistles does Kibo eat?"
    result = told.search(query, **ANA).results
    assert result[0].memory == DEEP
    asked, whole, *cut = told.embedder.embed_batch([query, DEEP, *passages(DEEP)])
    best = max(float(asked @ passage) for passage in cut)
    assert best > 2 * float(asked @ whole)
    assert result[0].similarity == pytest.approx(best, abs=0.005), "that of its passage"


def test_only_long_messages_of_the_user_carry_passages(quick: Memory) -> None:
    quick.add([{"role": "user", "content": DEEP}, {"role": "assistant", "content": f"Yes. {DEEP}"}], infer=False, **ANA)
    quick.add("short", infer=False, **ANA)
    kept = points(quick)
    assert unpack(kept[DEEP][PASSAGES], 384).shape == (len(passages(DEEP)), 384)
    assert PASSAGES not in kept[f"Yes. {DEEP}"]
    assert PASSAGES not in kept["short"]
    assert PASSAGES not in quick.get_all(**ANA).results[0].model_dump()


def test_passages_follow_their_text(quick: Memory) -> None:
    id = quick.add(DEEP, infer=False, **ANA).results[0].id
    longer = f"{DEEP} {' '.join(FILLER)}"
    quick.update(id, longer)
    assert len(unpack(points(quick)[longer][PASSAGES], 384)) == len(passages(longer))
    versions = [payload for text, payload in points(quick).items() if text == DEEP]
    assert all(PASSAGES not in payload for payload in versions), "earlier texts are not ranked by them"
    quick.update(id, "short")
    assert PASSAGES not in points(quick)["short"]
    assert found(quick, "thistles") == []


def test_passages_are_erased_with_their_memory(quick: Memory, tmp_path: Path) -> None:
    id = quick.add(DEEP, infer=False, **ANA).results[0].id
    packed = points(quick)[DEEP][PASSAGES]
    quick.forget(id=id)
    quick.close()
    for file in (tmp_path / "memory").rglob("*"):
        assert not file.is_file() or packed.encode()[:200] not in file.read_bytes(), file


def vectors_as_embedded(path: Path, config: dict[str, Any]) -> bool:
    """Whether the row of the long message has the vectors that its passages have today."""
    with Memory({"path": path, **config}) as memory:
        dimension = memory.embedder.dimension
        kept = unpack(points(memory)[DEEP].get(PASSAGES), dimension)
        wanted = memory.embedder.embed_batch(passages(DEEP))
        return kept.shape == wanted.shape and bool((np.sum(kept * wanted, axis=1) > 0.99).all())


@pytest.fixture
def deep(tmp_path: Path) -> Path:
    with Memory({"path": tmp_path / "deep", "embedder": HASHED}) as memory:
        memory.add(DEEP, infer=False, **ANA)
    return tmp_path / "deep"


def test_passages_are_those_of_the_model(deep: Path) -> None:
    assert vectors_as_embedded(deep, {"embedder": HASHED})


def test_a_copy_with_the_same_embedder_keeps_passages(deep: Path) -> None:
    other = deep.parent / "other"
    copied(deep, {"path": other, "embedder": HASHED})
    assert vectors_as_embedded(other, {"embedder": HASHED})


def test_a_copy_with_another_embedder_makes_passages_anew(deep: Path) -> None:
    other = deep.parent / "other"
    copied(deep, {"path": other, **NEW})
    assert vectors_as_embedded(other, NEW)


def test_reindex_makes_passages_anew(deep: Path) -> None:
    reindexed(deep)
    assert vectors_as_embedded(deep, NEW)


def test_an_import_with_the_same_embedder_keeps_passages(deep: Path) -> None:
    other = deep.parent / "other"
    load(other, export(deep), embedder=HASHED)
    assert vectors_as_embedded(other, {"embedder": HASHED})


@pytest.mark.parametrize("config", [NEW, {"embedder": HASHED, "episodes": "search"}])
def test_an_import_makes_passages(tmp_path: Path, config: dict[str, Any]) -> None:
    """With another embedder, and of messages that were not searched where they come from."""
    with Memory({"path": tmp_path / "from", "embedder": HASHED}) as memory:
        memory.add(DEEP, infer=config is not NEW, **ANA)
    load(tmp_path / "to", export(tmp_path / "from"), **config)
    assert vectors_as_embedded(tmp_path / "to", config)


def test_a_question_that_was_asked_before_covers_nothing(open_memory: Open) -> None:
    memory = open_memory()
    asked = "When do we deploy the billing service?"
    memory.add([{"role": "user", "content": asked}, {"role": "assistant", "content": "I don't know."}], user_id="bo")
    found = memory.search(asked, user_id="bo")
    assert asked in [item.memory for item in found.results]
    assert found.coverage < 0.5
    memory.add("We deploy the billing service on Mondays.", user_id="bo")
    assert memory.search(asked, user_id="bo").coverage > 0.9


def test_in_another_language_the_score_is_high_only_where_a_topic_word_is_shared(memory: Memory) -> None:
    for text in ("Ich wohne in Leipzig.", "Mein Auto ist rot.", "Ich lerne Klavier."):
        memory.add(text, infer=False, **ANA)
    answered = memory.search("Wo wohne ich?", **ANA).results[0]
    assert answered.memory == "Ich wohne in Leipzig."
    unrelated = memory.search("Wer hat heute Bereitschaft?", **ANA).results[0]
    assert (answered.score or 0) > 0.7 > 0.5 > (unrelated.score or 0)


# ------------------------------------------------------------------ the first results and the limit


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.integers(0, 11), min_size=12, max_size=60),
    st.sampled_from(["Where does Ana live now?", "What costs the yoga?", "yoga", "What happened in May?"]),
)
def test_the_first_results_are_the_same_whatever_the_limit(numbers: list[int], question: str) -> None:
    said = ["Ana lives in Graz", "Ana moved to Linz in May", "The yoga costs 12 euros", "The yoga is 15 euros now"]
    said += ["Ana has a cat", "Ana's cat is called Tom", "I quit the yoga", "My sister lives in Rome"]
    said += ["What costs the yoga?", "The boiler broke in May", "Ana might move to Wien"]
    said += ["No more yoga on mondays, it's fridays now"]
    with TemporaryDirectory() as folder, Memory({"path": folder, "embedder": HASHED}) as memory:
        for place, number in enumerate(numbers):
            at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=place)
            memory.add([{"role": "user", "content": said[number], "timestamp": at.isoformat()}], **ANA)
        whole = [item.id for item in memory.search(question, limit=100, **ANA).results]
        for limit in (1, 3, 10, 11, 25):
            few = [item.id for item in memory.search(question, limit=limit, **ANA).results]
            assert few[:FIRST] == whole[: min(limit, FIRST)]
            assert len(set(few)) == len(few) <= limit
