"""Bench: recall on a store made by hand, of which it is known what can be found and what cannot."""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from perdure import Memory
from perdure.backends.vector_stores.base import Point
from perdure.domain.errors import InvalidInputError
from perdure.domain.event import Episode, SearchResult
from perdure.domain.maintenance import ProbeScores
from perdure.domain.memory import LIVE, VERSION, MemoryItem, Slots, text_hash
from perdure.domain.scope import Scope
from perdure.engine.core.embedding import with_kept
from perdure.engine.maintenance import recall_benchmark
from perdure.engine.maintenance.recall_benchmark import bench, read_bench
from perdure.engine.read.search import ReadPath
from perdure.engine.requests import Query
from perdure.frontends.library.portal import PORTAL
from tests.conftest import Open
from tests.engine.core.adversarial_memories import HASHED
from tests.engine.read.test_recall_index import kernel_of

MOMENT = "2026-01-01T00:00:00.000000Z"
ANA, BEN = Scope(user_id="ana"), Scope(user_id="ben")
ROW = "00000000-0000-4000-8000-0000000000{:02}"
HOME, HIDDEN, TEA, TEA_AGAIN, OSLO, OLD_HOME, VERSION_ROW = (ROW.format(number) for number in range(1, 8))
DECOYS = ["bees", "clouds", "dragons", "engines", "ferns", "glaciers", "harps", "islands", "jackals", "kites", "lutes"]


def row(id: str, text: str, scope: Scope = ANA, **more: Any) -> MemoryItem:
    return MemoryItem(
        id=id,
        memory=text,
        hash=text_hash(text),
        scope=scope,
        **{"created_at": MOMENT, "updated_at": MOMENT, "told_at": MOMENT, "state": LIVE, **more},
    )


def write(memory: Memory, *items: MemoryItem) -> None:
    """Put rows into the store as they are, whatever a write path would make of them."""
    kernel = kernel_of(memory)
    PORTAL.call(kernel.ready())
    vectors = PORTAL.call(kernel.embedding.texts([item.memory for item in items])).vectors
    points = [Point(item.id, vector, item.to_payload()) for item, vector in zip(items, vectors, strict=True)]
    PORTAL.call(kernel.put_rows([with_kept(point, kernel.embedding.embedder.dimension) for point in points]))


def tell(memory: Memory, *, role: str = "user", **said: str) -> None:
    """Keep messages of ana's, each by its id."""
    episodes = [
        Episode(id=id, add_id=id, position=0, role=role, content=text, told_at=MOMENT, created_at=MOMENT,
                scope=ANA.given(), hidden=id == "hidden")
        for id, text in said.items()
    ]  # fmt: skip
    ledger = kernel_of(memory).ledger
    assert ledger is not None
    PORTAL.call(ledger.insert_episodes(episodes))


@pytest.fixture
def made(quick: Memory) -> Memory:
    """Ana moved, has a fact that its question does not find, and one twice; ben lives in Oslo."""
    write(
        quick,
        row(
            HOME,
            "User lives in Porto",
            slots=Slots("user", "home", "porto"),
            sources=("old", "new", "hidden"),
            version=2,
        ),
        row(VERSION_ROW, "User lives in Lisbon", state=VERSION, version_of=HOME, untold_at=MOMENT, sources=("old",)),
        row(HIDDEN, "zxq", slots=Slots("user", "employer", "acme")),
        *(row(ROW.format(20 + n), f"Where the user does work with {word}") for n, word in enumerate(DECOYS)),
        row(TEA, "User likes green tea"),
        row(TEA_AGAIN, "User likes green tea."),
        row(OSLO, "User lives in Oslo", BEN, slots=Slots("user", "home", "oslo")),
    )
    tell(quick, old="Lisbon suits me, I live there", new="We left for Porto by train", hidden="Porto again and again")
    return quick


# ------------------------------------------------------------------ what it tells


def test_what_can_be_found_what_cannot_and_what_is_there_twice(made: Memory) -> None:
    report = made.bench()
    assert (report.memories, report.scopes, report.preset, report.limit) == (16, 2, "best", 10)
    slots = report.kinds["slots"]
    assert (slots.probes, slots.found_at_limit) == (3, 2 / 3)
    assert (report.messages, report.told.probes, report.told.mrr) == (2, 1, 1.0)
    messages = report.kinds["messages"]
    assert (messages.probes, messages.mrr) == (1, 1.0), (
        "what an earlier text came from, and what is hidden, is not asked"
    )
    assert report.all.probes == 5
    assert report.all.found_at_limit == pytest.approx(4 / 5)
    assert [(miss.kind, miss.question, miss.ids, miss.scope) for miss in report.missed] == [
        ("slots", "Where does the user work?", (HIDDEN,), {"user_id": "ana"})
    ]
    assert made.why_not(HIDDEN, report.missed[0].question, user_id="ana", limit=10).reason in (
        "limit",
        "not_matched",
        "faint",
    )
    assert (report.duplicates, report.duplicate_pairs) == (1, ((TEA, TEA_AGAIN),))
    assert (report.stale, report.foreign, report.walls_hold, report.warnings) == (0, 0, True, [])
    assert report.recall_2000 == 1.0


def test_ranks_become_shares_and_reciprocals(made: Memory) -> None:
    write(made, row(HIDDEN, "Work", slots=Slots("user", "employer", "acme")))
    found = made.search("Where does the user work?", user_id="ana", limit=100).results
    rank = [item.id for item in found].index(HIDDEN) + 1
    assert rank > 1, "the decoys have more of the words"
    scores = made.bench(user_id="ana", limit=100).kinds["slots"]
    assert replace(scores, interval_at_1=None, interval_at_limit=None) == ProbeScores(
        probes=2, found_at_1=0.5, found_at_5=0.5 + 0.5 * (rank <= 5), found_at_limit=1.0, mrr=(1 + 1 / rank) / 2
    )
    assert scores.interval_at_1 == pytest.approx((0.0945, 0.9055), abs=1e-4)
    assert scores.interval_at_limit == pytest.approx((0.3424, 1.0), abs=1e-4)


def test_an_earlier_text_that_comes_is_told(made: Memory) -> None:
    write(made, row(OLD_HOME, "user lives in  Lisbon."))
    assert made.bench().stale == 1, "it comes to the question, and is faint beside what the message leads to"
    assert made.bench(user_id="ben").stale == 0


def test_coverage_and_times(made: Memory) -> None:
    report = made.bench()
    assert report.coverage_found is not None
    assert report.coverage_missed is not None
    assert 0 <= report.coverage_missed <= 1
    assert 0 < report.coverage_found <= 1
    assert report.search_p50_ms is not None
    assert report.search_p95_ms is not None
    assert 0 < report.search_p50_ms <= report.search_p95_ms


def test_the_embedding_is_not_in_the_times(made: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = kernel_of(made).embedding.embedder
    embed, nap = embedder.embed_batch, 0.2

    async def slow(texts: list[str]) -> NDArray[np.float32]:
        await asyncio.sleep(nap)
        return await embed(texts)

    monkeypatch.setattr(embedder, "embed_batch", slow)
    report = made.bench(user_id="ben")
    assert report.search_p50_ms is not None
    assert 0 < report.search_p50_ms < 1_000 * nap


def test_recall_is_the_share_of_what_a_message_told(quick: Memory) -> None:
    ids = [ROW.format(number) for number in range(2)]
    write(quick, row(ids[0], "User has a dog", sources=("m",)), row(ids[1], "basalt " * 1_700, sources=("m",)))
    tell(quick, m="A dog sniffed at basalt")
    assert quick.bench().recall_2000 == 0.5, "the other one is longer than the budget"


# ------------------------------------------------------------------ what was told


def test_what_was_told_and_not_kept_is_missed(quick: Memory) -> None:
    write(quick, row(TEA, "User pays 45 euros for the kennel", sources=("kennel",)))
    tell(quick, kennel="The kennel takes 45 euros a day.", ferry="The ferry to Kos leaves from Piraeus pier daily.")
    report = quick.bench()
    assert (report.messages, report.told.probes, report.told.found_at_limit) == (2, 2, 0.5)
    (miss,) = report.missed
    assert (miss.kind, miss.ids, miss.scope) == ("told", ("ferry",), {"user_id": "ana"})
    assert miss.value in ("Kos", "Piraeus")
    assert miss.value not in miss.question


def test_the_rank_is_that_of_the_first_result_that_says_it(quick: Memory) -> None:
    write(
        quick,
        row(TEA, "The kennel takes many euros a day", sources=("kennel",)),
        row(TEA_AGAIN, "Our kennel in town takes 45 euros", sources=("kennel",)),
    )
    tell(quick, kennel="The kennel takes 45 euros a day.")
    assert [item.id for item in quick.search("kennel takes euros day", user_id="ana").results] == [TEA, TEA_AGAIN]
    told = quick.bench().told
    assert (told.found_at_1, told.found_at_limit, told.mrr) == (0.0, 1.0, 0.5)
    assert quick.bench(limit=1).told.found_at_limit == 0.0


@pytest.mark.parametrize(
    ("said", "said_by"),
    [
        ({"hidden": "The kennel takes 45 euros a day."}, "user"),
        ({"question": "Does the kennel take 45 euros a day?"}, "user"),
        ({"answer": "The kennel takes 45 euros a day."}, "assistant"),
        ({"plain": "The kennel takes euros every day."}, "user"),
        ({"expired": "The kennel takes 45 euros a day."}, "user"),
    ],
)
def test_what_cannot_be_asked_for(quick: Memory, said: dict[str, str], said_by: str) -> None:
    write(quick, row(TEA, "User likes tea"), row(HOME, "Kennel", sources=("expired",), expires_at=MOMENT))
    tell(quick, role=said_by, **said)
    assert quick.bench().told.probes == 0


def test_a_value_that_was_changed_since_is_not_asked_for(open_memory: Open) -> None:
    memory = open_memory(embedder=HASHED)
    memory.add("I live in Lisbon near the river.", user_id="ana")
    assert memory.bench().told.probes == 1
    memory.add("I moved to Porto near the river.", user_id="ana")
    report = memory.bench()
    assert [item.memory for item in memory.get_all(user_id="ana").results] == ["User moved to Porto near the river"]
    assert (report.messages, report.told.probes) == (2, 1)


@pytest.mark.parametrize(("episodes", "found"), [("words", 1.0), ("keep", 0.0)])
def test_messages_are_found_where_they_are_searched(open_memory: Open, episodes: str, found: float) -> None:
    memory = open_memory(embedder=HASHED, episodes=episodes)
    memory.add("Error 4711 while reading block after block of tape", user_id="ana")
    told = memory.bench().told
    assert (told.probes, told.found_at_limit) == (1, found)


def test_without_messages_that_is_said(open_memory: Open) -> None:
    memory = open_memory(embedder=HASHED, episodes="off")
    memory.add("I live in Lisbon near the river.", user_id="ana")
    report = memory.bench()
    assert (report.memories, report.told.probes, report.told.interval_at_limit) == (1, 0, None)
    assert report.warnings == [
        'no messages of users are stored (`episodes = "off"`): what was told cannot be asked for'
    ]


# ------------------------------------------------------------------ walls


def test_probes_are_spread_over_scopes_and_asked_inside_them(made: Memory) -> None:
    report = made.bench(probes=2)
    assert report.all.probes == 2
    assert report.kinds["slots"].probes >= 1
    ben = made.bench(user_id="ben")
    assert (ben.memories, ben.scopes, ben.all.probes, ben.all.found_at_1) == (1, 1, 1, 1.0)
    assert made.bench(user_id="nobody").memories == 0


def test_a_scope_inside_another_is_seen_from_it(made: Memory) -> None:
    write(made, row(ROW.format(50), "User drives a Fiat", Scope("ana", "bot"), slots=Slots("user", "car", "fiat")))
    report = made.bench(user_id="ana")
    assert (report.scopes, report.foreign) == (2, 0)
    assert all(miss.scope == {"user_id": "ana"} for miss in report.missed)
    bot = made.bench(agent_id="bot").all
    assert (bot.probes, bot.found_at_1, bot.mrr) == (1, 1.0, 1.0)


def test_a_result_from_another_scope_is_counted(made: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = ReadPath.find

    async def leaking(self: ReadPath, query: Query) -> SearchResult:
        result = await honest(self, query)
        return replace(result, results=[*result.results, row(OSLO, "User lives in Oslo", BEN)])

    monkeypatch.setattr(ReadPath, "find", leaking)
    report = made.bench(user_id="ana")
    assert report.foreign == report.all.probes == 4
    assert not report.walls_hold


# ------------------------------------------------------------------ only reads


def contents(folder: Path) -> dict[str, list[str]]:
    """Every row of every table of every database in a folder, counters and access counts among them."""
    dumped = {}
    for file in sorted(folder.glob("*.db")):
        connection = sqlite3.connect(file)
        dumped[file.name] = list(connection.iterdump())
        connection.close()
    return dumped


def test_nothing_is_changed(made: Memory, tmp_path: Path) -> None:
    before = contents(tmp_path / "memory")
    assert sum(len(lines) for lines in before.values()) > 20
    assert made.bench().all.probes == 5
    assert contents(tmp_path / "memory") == before


def test_the_same_store_gives_the_same_answers(made: Memory) -> None:
    one, other = (replace(made.bench(probes=3), search_p50_ms=None, search_p95_ms=None) for _ in range(2))
    assert one == other


# ------------------------------------------------------------------ edges


def test_an_empty_store_has_nothing_to_ask(quick: Memory) -> None:
    report = quick.bench()
    assert (report.memories, report.all.probes, report.all.mrr) == (0, 0, 0.0)
    assert (report.recall_2000, report.coverage_found, report.search_p50_ms) == (None, None, None)
    assert report.walls_hold


def test_what_ended_or_is_past_is_not_asked_for(quick: Memory) -> None:
    slots = Slots("user", "home", "porto")
    write(quick, row(HOME, "User lives in Porto", slots=slots, valid_to=MOMENT))
    write(quick, row(OSLO, "User lives in Oslo", slots=slots, expires_at=MOMENT))
    assert quick.bench().memories == 0


def test_a_text_that_came_back_is_asked_by_its_last_message(quick: Memory) -> None:
    write(
        quick,
        row(HOME, "User lives in Porto", sources=("one", "two", "three"), version=3),
        row(VERSION_ROW, "User lives in Rome", state=VERSION, version_of=HOME, sources=("one", "two")),
        row(ROW.format(60), "User lives in Porto.", state=VERSION, version_of=HOME, sources=("one",)),
    )
    tell(quick, one="Porto is home", two="Rome is home", three="Back beside the Douro")
    report = quick.bench()
    assert (report.kinds["messages"].probes, report.stale) == (1, 0)


def test_where_messages_are_searched_too_the_one_that_is_asked_does_not_count(open_memory: Open) -> None:
    memory = open_memory(embedder=HASHED, episodes="search")
    memory.add("My dog Rex hates the noisy trams.", user_id="ana")
    found = memory.search("dog Rex hates noisy trams", user_id="ana")
    assert found.results[0].kind == "messages"
    assert memory.bench().kinds["messages"].found_at_1 == 1.0


def test_without_the_ledger_values_are_asked_for_alone(made: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_of(made), "ledger", None)
    report = made.bench()
    assert (report.kinds["slots"].probes, report.kinds["messages"].probes, report.recall_2000) == (3, 0, None)
    assert (report.told.probes, report.messages) == (0, 0)
    assert report.warnings == ["no messages of users are stored: what was told cannot be asked for"]


def test_of_a_huge_scope_the_newest_are_compared(made: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall_benchmark, "COMPARED", 1)
    report = made.bench()
    assert report.duplicates == 0
    assert len(report.warnings) == 1


@pytest.mark.parametrize("preset", ["plain", "router", "proxy"])
def test_other_presets_are_measured_too(made: Memory, preset: str) -> None:
    report = made.bench(preset=preset, limit=3)
    assert (report.preset, report.limit, report.all.probes) == (preset, 3, 5)
    assert report.all.found_at_5 == report.all.found_at_limit


def test_progress_goes_to_the_whole(made: Memory) -> None:
    kernel = kernel_of(made)
    request = read_bench(kernel, scope=Scope(), probes=9, preset=None, limit=1)
    told: list[float] = []
    PORTAL.call(bench(kernel, request, told.append))
    assert told == [0.2, 0.4, 0.6, 0.8, 1.0]


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        ({"probes": 0}, "probes"),
        ({"limit": True}, "limit"),
        ({"preset": "worst"}, "preset"),
        ({"user_id": ""}, "user_id"),
    ],
)
def test_what_cannot_be_is_refused(quick: Memory, bad: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        quick.bench(**bad)
    assert caught.value.field == field


def test_the_report_is_plain_values(made: Memory) -> None:
    dump = made.bench().model_dump()
    assert dump["kinds"]["slots"]["probes"] == 3
    assert dump["duplicate_pairs"] == [[TEA, TEA_AGAIN]]
    assert dump["missed"][0]["ids"] == [HIDDEN]
