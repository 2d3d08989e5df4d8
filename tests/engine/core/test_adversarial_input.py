"""Bad input on every public method and argument: a typed error that names field and value, and nothing changed; or it
works. And the walls between scopes, which no filter widens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from perdure import ConfigError, InvalidInputError, Memory, Message, PerdureError
from perdure.domain.memory import text_hash
from perdure.frontends.library.portal import PORTAL

pytestmark = pytest.mark.covers("T20", "U22")

ANA: dict[str, Any] = {"user_id": "ana"}
HASHED = {"provider": "hashed"}
LONE = "\ud800"
DEEP: Any = reduce(lambda inner, _: [inner], range(3000), 1)
LOOP: dict[str, Any] = {}
LOOP["self"] = LOOP


@pytest.fixture(scope="module", params=["sqlite", "memory"])
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """One memory for all that must change nothing."""
    memory = Memory(
        {
            "path": str(tmp_path_factory.mktemp("shared")),
            "embedder": HASHED,
            "vector_store": {"provider": request.param},
        }
    )
    memory.add("User likes tea", infer=False, **ANA)
    yield memory
    memory.close()


def snapshot(memory: Memory) -> Any:
    items = memory.get_all(limit=1000, **ANA).results
    ledger = memory._memory._engine.kernel.ledger
    assert ledger is not None
    stats = PORTAL.call(ledger.stats())
    counted = {name: stats[name] for name in ("history", "episodes", "written", "remembered", "erased")}
    return [item.with_(access_count=0, last_accessed_at=None).model_dump() for item in items], counted


Call = Callable[[Memory, Any], Any]

TEXTS: dict[str, Call] = {
    "messages": lambda memory, value: memory.add(value, infer=False, **ANA),
    "content": lambda memory, value: memory.add([{"role": "user", "content": value}], **ANA),
    "part": lambda memory, value: memory.add(
        [{"role": "user", "content": [{"type": "text", "text": value}]}], infer=False, **ANA
    ),
    "name": lambda memory, value: memory.add([{"role": "user", "content": "x", "name": value}], infer=False, **ANA),
    "message id": lambda memory, value: memory.add([{"role": "user", "content": "x", "id": value}], infer=False, **ANA),
    "facts": lambda memory, value: memory.add_facts(["fine", value], **ANA),
    "prompt": lambda memory, value: memory.add("x", prompt=value, **ANA),
    "type": lambda memory, value: memory.add("x", infer=False, type=value, **ANA),
    "key": lambda memory, value: memory.add("x", infer=False, idempotency_key=value, **ANA),
    "metadata": lambda memory, value: memory.add("x", infer=False, metadata={"deep": [{"in": value}]}, **ANA),
    "metadata key": lambda memory, value: memory.add("x", infer=False, metadata={"deep": [{value: 1}]}, **ANA),
    "update": lambda memory, value: memory.update(memory.get_all(**ANA).results[0].id, value),
    "query": lambda memory, value: memory.search(value, **ANA),
    "types": lambda memory, value: memory.search("x", types=[value], **ANA),
    "history": lambda memory, value: memory.search("x", history=[{"role": "user", "content": value}], **ANA),
    "filter value": lambda memory, value: memory.search("x", filters={"tag": value}, **ANA),
    "filter in": lambda memory, value: memory.get_all(filters={"tag": {"in": [value]}}, **ANA),
    "filter name": lambda memory, value: memory.get_all(filters={value: 1}, **ANA),
    "context": lambda memory, value: memory.context(value, **ANA),
    "forget": lambda memory, value: memory.forget(query=value, **ANA),
    "undo": lambda memory, value: memory.undo(value),
    "user": lambda memory, value: memory.search("x", user_id=value),
    "agent": lambda memory, value: memory.add("x", infer=False, agent_id=value),
    "run": lambda memory, value: memory.rollback(run_id=value, to="2020-01-01"),
    "cursor": lambda memory, value: memory.get_all(cursor=value, **ANA),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_lone_surrogate_is_refused_everywhere(shared: Memory, name: str) -> None:
    """No database and no wire can carry one: refused at the door, by every store alike, with the field named."""
    before = snapshot(shared)
    with pytest.raises(PerdureError) as caught:
        TEXTS[name](shared, f"before {LONE} after")
    assert isinstance(caught.value, InvalidInputError) and caught.value.field
    assert LONE in str(caught.value.value) and "before" in str(caught.value)
    assert snapshot(shared) == before


@pytest.mark.parametrize(
    "value", [5, 5.0, True, b"bytes", ["list"], {"a": 1}, object(), {1}], ids=lambda value: type(value).__name__
)
@pytest.mark.parametrize("name", [name for name in TEXTS if name not in ("metadata", "filter value", "filter in")])
def test_what_is_no_text_is_refused(shared: Memory, name: str, value: Any) -> None:
    if name in ("metadata key", "filter name") and type(value).__hash__ is None:
        return  # no object can have such a key
    if name in ("content", "history") and value == ["list"]:
        return  # content may be a list of parts
    before = snapshot(shared)
    with pytest.raises(PerdureError) as caught:
        TEXTS[name](shared, value)
    assert isinstance(caught.value, InvalidInputError) and caught.value.field
    assert snapshot(shared) == before


WRONG: dict[str, Callable[[Memory], Any]] = {
    "types a number": lambda memory: memory.search("x", types=5, **ANA),  # type: ignore[arg-type]
    "types a text": lambda memory: memory.search("x", types="semantic", **ANA),
    "history a number": lambda memory: memory.search("x", history=5, **ANA),  # type: ignore[arg-type]
    "limit 0": lambda memory: memory.search("x", limit=0, **ANA),
    "limit true": lambda memory: memory.get_all(limit=True, **ANA),
    "limit 1.0": lambda memory: memory.get_all(limit=1.0, **ANA),  # type: ignore[arg-type]
    "threshold nan": lambda memory: memory.search("x", threshold=float("nan"), **ANA),
    "threshold 2": lambda memory: memory.search("x", threshold=2, **ANA),
    "threshold huge": lambda memory: memory.search("x", threshold=10**5000, **ANA),
    "threshold true": lambda memory: memory.forget(query="x", threshold=True, **ANA),
    "max_tokens 0": lambda memory: memory.context("x", max_tokens=0, **ANA),
    "metadata a list": lambda memory: memory.add("x", metadata=[], **ANA),  # type: ignore[arg-type]
    "metadata nested": lambda memory: memory.add("x", metadata={"a": DEEP}, **ANA),
    "metadata is nested": lambda memory: memory.add("x", metadata=DEEP, **ANA),
    "metadata in itself": lambda memory: memory.add("x", metadata=LOOP, **ANA),
    "metadata nan": lambda memory: memory.update("0" * 32, "x", metadata={"a": float("nan")}),
    "metadata inf": lambda memory: memory.add("x", metadata={"a": [float("inf")]}, **ANA),
    "metadata huge": lambda memory: memory.add("x", metadata={"a": 10**400}, **ANA),
    "metadata huger": lambda memory: memory.add("x", metadata={"a": -(10**5000)}, **ANA),
    "metadata a set": lambda memory: memory.add("x", metadata={"a": {1}}, **ANA),
    "metadata a moment": lambda memory: memory.add("x", metadata={"a": datetime.now(UTC)}, **ANA),
    "metadata key": lambda memory: memory.add("x", metadata={1: 1}, **ANA),  # type: ignore[dict-item]
    "metadata reserved": lambda memory: memory.add("x", metadata={"user_id": "bo"}, **ANA),
    "metadata hash": lambda memory: memory.add_facts(["x"], metadata={"hash": "bo"}, **ANA),
    "messages nested": lambda memory: memory.add(DEEP, **ANA),
    "messages None": lambda memory: memory.add(None, **ANA),  # type: ignore[arg-type]
    "message a text": lambda memory: memory.add(["x"], **ANA),  # type: ignore[list-item]
    "message role": lambda memory: memory.add([{"role": "owner", "content": "x"}], **ANA),
    "message role list": lambda memory: memory.add([{"role": ["user"], "content": "x"}], **ANA),
    "message part": lambda memory: memory.add([{"role": "user", "content": [5]}], **ANA),
    "message time": lambda memory: memory.add([{"role": "user", "content": "x", "timestamp": 5}], **ANA),
    "infer 1": lambda memory: memory.add("x", infer=1, **ANA),  # type: ignore[arg-type]
    "timestamp": lambda memory: memory.add("x", timestamp="yesterday", **ANA),
    "timestamp number": lambda memory: memory.add("x", timestamp=1.0, **ANA),  # type: ignore[arg-type]
    "timestamp 13th month": lambda memory: memory.add("x", timestamp="2026-13-01", **ANA),
    "timestamp before time": lambda memory: memory.add(
        "x", timestamp=datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))), **ANA
    ),
    "expires_at": lambda memory: memory.add("x", expires_at="soon", **ANA),
    "key empty": lambda memory: memory.add("x", idempotency_key="", **ANA),
    "facts a text": lambda memory: memory.add_facts("x", **ANA),
    "facts a generator": lambda memory: memory.add_facts((each for each in "x"), **ANA),  # type: ignore[arg-type]
    "facts empty text": lambda memory: memory.add_facts(["x", " "], **ANA),
    "query empty": lambda memory: memory.search(" \n", **ANA),
    "filters a list": lambda memory: memory.search("x", filters=[], **ANA),  # type: ignore[arg-type]
    "filters nested": lambda memory: memory.search(
        "x", filters=reduce(lambda a, _: {"NOT": a}, range(3000), {}), **ANA
    ),
    "filters in itself": lambda memory: memory.search("x", filters={"NOT": LOOP}, **ANA),
    "filter nan": lambda memory: memory.search("x", filters={"a": float("nan")}, **ANA),
    "filter huge": lambda memory: memory.search("x", filters={"a": 10**5000}, **ANA),
    "filter None": lambda memory: memory.search("x", filters={"a": None}, **ANA),
    "as_of": lambda memory: memory.search("x", as_of="now", **ANA),
    "include_past": lambda memory: memory.get_all(include_past="yes", **ANA),  # type: ignore[arg-type]
    "preset": lambda memory: memory.search("x", preset="fancy", **ANA),
    "preset list": lambda memory: memory.search("x", preset=["plain"], **ANA),  # type: ignore[arg-type]
    "explain": lambda memory: memory.search("x", explain=1, **ANA),  # type: ignore[arg-type]
    "cursor": lambda memory: memory.get_all(cursor="bm9uc2Vuc2U=", **ANA),
    "get None": lambda memory: memory.get(None),  # type: ignore[arg-type]
    "history bytes": lambda memory: memory.history(b"x"),  # type: ignore[arg-type]
    "update blank": lambda memory: memory.update("0" * 32, " "),
    "delete erase": lambda memory: memory.delete("0" * 32, erase="yes"),  # type: ignore[arg-type]
    "forget both": lambda memory: memory.forget(id="0" * 32, query="x", **ANA),
    "forget dry": lambda memory: memory.forget(dry_run=None, **ANA),  # type: ignore[arg-type]
    "rollback": lambda memory: memory.rollback(to=None, **ANA),  # type: ignore[arg-type]
    "no scope": lambda memory: memory.delete_all(),
    "scope empty": lambda memory: memory.delete_all(user_id=""),
    "scope NUL": lambda memory: memory.delete_all(user_id="a\x00"),
    "scope long": lambda memory: memory.delete_all(user_id="a" * 2000),
    "scope number": lambda memory: memory.delete_all(user_id=5),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_values_are_refused_with_field_and_value(shared: Memory, name: str) -> None:
    before = snapshot(shared)
    with pytest.raises(InvalidInputError) as caught:
        WRONG[name](shared)
    assert caught.value.field or name == "no scope"
    assert len(str(caught.value)) < 500, "an error is for people"
    assert snapshot(shared) == before


FINE: dict[str, Callable[[Memory], Any]] = {
    "limit": lambda memory: memory.search("x", limit=10**9, **ANA),
    "limit huge": lambda memory: memory.get_all(limit=10**30, **ANA),
    "max_tokens huge": lambda memory: memory.context("tea", max_tokens=10**30, **ANA),
    "no messages": lambda memory: memory.add([], **ANA),
    "blank": lambda memory: memory.add(" \n ", infer=False, **ANA),
    "no facts": lambda memory: memory.add_facts([], **ANA),
    "no filter": lambda memory: memory.search("x", filters={}, **ANA),
    "history a message": lambda memory: memory.search("it", history=Message("user", "tea"), **ANA),  # type: ignore[arg-type]
    "many in": lambda memory: memory.get_all(filters={"a": {"in": list(range(40_000))}}, **ANA),
    "first day": lambda memory: memory.get_all(as_of="0001-01-01", **ANA),
    "last day": lambda memory: memory.get_all(as_of="9999-12-31T23:59:59.999999Z", **ANA),
    "rollback to the future": lambda memory: memory.rollback(to="9999-12-31", **ANA),
    "delete nothing": lambda memory: memory.delete_all(user_id="nobody"),
    "ids": lambda memory: [memory.get(id) for id in ("", "fake", LONE, "\x00", "mem_", "x" * 10**6)],
}


@pytest.mark.parametrize("name", FINE)
def test_strange_values_that_work_change_nothing(shared: Memory, name: str) -> None:
    before = snapshot(shared)
    FINE[name](shared)
    assert snapshot(shared) == before


@pytest.mark.parametrize("store", ["sqlite", "memory"])
@pytest.mark.parametrize(
    "text",
    [
        "nul \x00 inside",
        "\x01\x02\x1b[31m",
        "line\u2028sep\u2029",
        "\ufeff\u200b\u202e",
        "a" * 1_000_000,
        "😀" * 1000,
        "'\"%_\\",
    ],
    ids=lambda text: ascii(text[:12]),
)
def test_any_other_text_is_kept_as_it_is(open_memory: Any, store: str, text: str) -> None:
    memory = open_memory(embedder=HASHED, vector_store={"provider": store}, episodes="search")
    data = {"key \x00": text[:100], "n": [2**64, -0.0, None, True, {"": []}]}
    id = memory.add(text, infer=False, metadata=data, idempotency_key=text[:100], **ANA).results[0].id
    assert memory.add(text, infer=False, idempotency_key=text[:100], **ANA).results[0].id == id
    item = memory.get(id)
    assert item is not None and item.memory == text and item.metadata == data and item.hash == text_hash(text)
    assert memory.history(id)[0].new_value == text
    assert memory.update(id, f"{text}!").memory == f"{text}!"
    assert memory.get_all(as_of=item.updated_at, **ANA).results[0].memory == text
    assert memory.search("x" + text[:200], filters={"memory": {"contains": text[:50]}}, **ANA).results
    memory.undo(memory.history(id)[-1].id)
    memory.forget(id=id)
    assert memory.get(id) is None


@pytest.mark.parametrize("when", ["0001-01-01", "0001-01-01T00:30:00Z", "9999-12-31T23:59:59.999999Z"])
def test_the_ends_of_time(open_memory: Any, when: str) -> None:
    memory = open_memory(embedder=HASHED)
    id = memory.add([{"role": "user", "content": "note", "timestamp": when}], infer=False, **ANA).results[0].id
    result = memory.add("I moved to Oslo yesterday, and I will be there for a week", timestamp=when, **ANA)
    assert not any("report it" in warning for warning in result.warnings), result.warnings
    assert memory.get_all(as_of=when, **ANA).results[0].id == id
    memory.update(id, "changed")
    memory.rollback(to="2020-01-01", **ANA)
    assert memory.get(id) is None


def test_messages_bring_their_times_in_any_form() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    for form in ("2026-01-01", datetime(2026, 1, 1), moment, moment.astimezone(timezone(timedelta(hours=-5)))):
        assert Message("user", "x", timestamp=form).timestamp == moment  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="timestamp"):
        Message("user", "x", timestamp="soon")  # type: ignore[arg-type]


@pytest.mark.parametrize("config", [{"path": "a\x00b"}, {"history": {"db_path": "a\x00b"}}])
def test_no_path_holds_a_nul(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="NUL"):
        Memory(config)


def test_callers_cannot_change_what_was_stored(quick: Memory) -> None:
    data = {"list": [1], "object": {"a": 1}}
    id = quick.add("note", infer=False, metadata=data, **ANA).results[0].id
    data["list"].append(2)  # type: ignore[attr-defined]
    quick.get_all(**ANA).results[0].metadata["list"].append(3)
    item = quick.get(id)
    assert item is not None and item.metadata == {"list": [1], "object": {"a": 1}}


# ------------------------------------------------------------------ great batches


def test_great_batches(open_memory: Any, tmp_path: Path) -> None:
    """More than any store, page or statement takes at once (2,000 and 500 at most): what is more goes the same way."""
    memory = open_memory(embedder=HASHED)
    added = memory.add([{"role": "user", "content": f"message {n}"} for n in range(2100)], infer=False, **ANA).results
    assert len(added) == 2100
    page = memory.get_all(limit=10_000, **ANA).results
    assert [item.memory for item in page] == [f"message {n}" for n in range(2100)], "in order"
    facts = memory.add_facts([f"User owns exhibit {number}" for number in range(600)], user_id="bo").results
    assert len(facts) == 600
    assert len(memory.get_all(limit=10_000, user_id="bo").results) == sum(each.event == "ADD" for each in facts)
    memory.forget(**ANA)
    assert memory.get_all(**ANA).results == []
    asyncio.run(asyncio.sleep(0))
