"""How long a key is lent, for which turns, and what is closed when it goes; against a server on a real port."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from perdure.backends.llms.openai import OpenAILLM
from perdure.domain.clock import system_clock
from perdure.domain.message import Message
from perdure.engine.build import build
from perdure.engine.chat import caller_model
from perdure.engine.chat.caller_model import CallerModels, ModelGrant
from perdure.engine.chat.settings import Dialect, GatewaySettings
from perdure.engine.config.config import read_config
from perdure.engine.engine import Engine
from perdure.engine.write.curator import Curator, ReadRequest
from tests.engine.chat.talks import ANN, World, run, talk, user
from tests.frontends.gateway.scripts import Reply, completion
from tests.frontends.gateway.upstream import Upstream, upstream

CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def model() -> Iterator[Upstream]:
    with upstream() as found:
        found.always(CHAT, Reply.of_json(completion(json.dumps({"facts": [{"text": "User keeps bees"}]}))))
        yield found


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    path = str(tmp_path_factory.mktemp("memory"))
    return build(read_config({"path": path, "embedder": {"provider": "hashed"}, "episodes": "off"}))


def loan(key: str = "one", model: str = "small", url: str = "http://127.0.0.1:9/v1") -> ModelGrant:
    return ModelGrant(model=model, base_url=url, key=SecretStr(key))


def lender(engine: Engine, is_on: bool = True) -> CallerModels:
    return CallerModels(engine, GatewaySettings(extract_with_upstream=is_on))


async def facts(engine: Engine, curator: Curator | None) -> list[str]:
    assert curator is not None
    said = [Message("user", "They hum.")]
    answers = engine.kernel.answers(ANN)
    reading = await curator.read(ReadRequest(messages=said, now=system_clock(), answers=answers))
    return [fact.text for fact in reading.facts]


def is_gone(model: Upstream, request: int) -> bool:
    return model.until(model.exchanges[request].gone.is_set)


@pytest.mark.covers("U24")
@given(st.lists(st.tuples(st.integers(1, 12), st.sampled_from(["one", "two", None])), max_size=30))
def test_a_key_is_used_for_no_turn_that_came_without_it(engine: Engine, lent: list[tuple[int, str | None]]) -> None:
    async def held() -> None:
        found, came = lender(engine), dict[int, str | None]()
        for turn, key in lent:
            came[turn] = key
            found.lend("s", turn, None if key is None else loan(key))
            holds = found._lent.get("s")
            for each in found.turns("s"):
                assert holds is not None and holds.grant.key == SecretStr(came[each] or "")
            if key is not None:
                assert turn in found.turns("s")
        await found.close()
        assert not found.turns("s")

    asyncio.run(held())


@pytest.mark.covers("U24")
def test_loans_are_few_and_short(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller_model, "MOST_GRANTS", 3)

    async def held() -> None:
        found = lender(engine)
        for session in ("a", "b", "c", "a", "d"):
            found.lend(session, 1, loan(session))
        assert [bool(found.turns(each)) for each in "abcd"] == [True, False, True, True], "the least recent went"
        monkeypatch.setattr(caller_model, "CREDENTIAL_TTL_SECONDS", 0.01)
        found.lend("e", 1, loan("e"))
        await found.close()
        assert found._timer is None
        found.lend("f", 1, loan("f"))
        async with asyncio.timeout(20):
            while found.turns("f"):
                await asyncio.sleep(0.005)
        await found.close()

    asyncio.run(held())


@pytest.mark.covers("U24")
def test_off_nothing_is_lent_or_said(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    async def held() -> None:
        found = lender(engine, is_on=False)
        found.lend("s", 1, loan())
        assert not found.turns("s")
        async with found.reader("s", 1) as curator:
            assert curator is None

    with caplog.at_level(logging.DEBUG, "perdure"):
        asyncio.run(held())
    assert caplog.records == []


@pytest.mark.covers("U24")
def test_the_connection_is_closed_when_the_last_loan_of_its_key_goes(engine: Engine, model: Upstream) -> None:
    async def held() -> None:
        model.exchanges.clear()
        found = lender(engine)
        found.lend("a", 1, loan("one", url=model.url))
        found.lend("b", 1, loan("one", url=model.url))
        async with found.reader("a", 1) as mine, found.reader("b", 1) as theirs:
            assert mine is theirs, "sessions of one key share its connections"
            assert await facts(engine, mine) == ["User keeps bees"]
        found.lend("a", 2, loan("two", url=model.url))
        assert not model.exchanges[0].gone.is_set()
        async with found.reader("b", 1) as curator:
            found.lend("b", 2, loan("two", url=model.url))
            assert await facts(engine, curator) == ["User keeps bees"], "who reads is not cut off"
        assert is_gone(model, 0)
        found.lend("b", 3, loan("two", "large", url=model.url))
        assert list(found.turns("b")) == [2, 3], "another model of the same key"
        async with found.reader("b", 2) as curator:
            await facts(engine, curator)
        assert model.last.json["model"] == "large"
        await found.close()
        assert is_gone(model, len(model.exchanges) - 1)

    asyncio.run(held())


@pytest.mark.covers("U24")
def test_few_connections_are_held_for_many_keys(
    engine: Engine, model: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caller_model, "MOST_MODELS", 2)

    async def held() -> None:
        model.exchanges.clear()
        found = lender(engine)
        for key in ("one", "two", "three", "one"):
            found.lend(key, 1, loan(key, url=model.url))
            async with found.reader(key, 1) as curator:
                assert await facts(engine, curator) == ["User keeps bees"]
        assert [each.seen.header("authorization") for each in model.exchanges] == [
            f"Bearer {key}" for key in ("one", "two", "three", "one")
        ]
        assert is_gone(model, 0) and not model.exchanges[2].gone.is_set()
        await found.close()

    asyncio.run(held())


@pytest.mark.covers("U24")
@pytest.mark.parametrize("episodes", ["keep", "off"])
@pytest.mark.parametrize(
    ("dialect", "batch", "read"),
    [("chat", 1, {"one": ["Tea"], "two": ["Salt", "Rye"]}), ("responses", 4, {"two": ["Salt", "Rye"]})],
)
def test_a_batch_of_several_keys_is_read_by_each_for_itself(
    tmp_path: Path, model: Upstream, episodes: str, dialect: Dialect, batch: int, read: dict[str, list[str]]
) -> None:
    model.seen.clear()

    async def held(world: World) -> None:
        talked = talk(dialect=dialect)
        for text, key in (("Tea", "one"), ("Salt", "two"), ("Rye", "two"), ("I live in Lisbon", None)):
            lent = None if key is None else loan(key, url=model.url)
            await world.keep(talked, user(f"{text}, I say."), "I see.", grant=lent)
            if dialect == "chat":
                await world.settle()
        await world.settle()
        assert {"User keeps bees", "User lives in Lisbon"} <= set(await world.facts())

    settings = {"extract_with_upstream": True, "extraction_batch_size": batch}
    run(held, tmp_path, settings=settings, episodes=episodes)
    sent: dict[str, str] = {}
    for each in model.of(CHAT):
        key = (each.header("authorization") or "").removeprefix("Bearer ")
        sent[key] = sent.get(key, "") + str(each.messages[1]["content"])
    words = ("Tea", "Salt", "Rye", "Lisbon")
    assert {key: [word for word in words if word in text] for key, text in sent.items()} == read


@pytest.mark.covers("U24")
@pytest.mark.parametrize("wrong", [loan("schlüssel"), loan(url="http://")], ids=["key", "address"])
def test_what_cannot_be_asked_with_is_not_said_but_that_it_cannot(
    engine: Engine, caplog: pytest.LogCaptureFixture, wrong: ModelGrant
) -> None:
    async def held() -> None:
        found = lender(engine)
        found.lend("s", 1, wrong)
        for _ in range(2):
            async with found.reader("s", 1) as curator:
                assert curator is None
        await found.close()

    with caplog.at_level(logging.DEBUG, "perdure"):
        asyncio.run(held())
    (record,) = caplog.records
    assert "read by the rules" in record.getMessage() and "schlüssel" not in caplog.text


@pytest.mark.covers("U24")
def test_a_request_without_a_key_is_read_without_one(
    engine: Engine, model: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")

    async def held() -> None:
        found = lender(engine)
        found.lend("s", 1, ModelGrant(model="small", base_url=model.url, key=None))
        async with found.reader("s", 1) as curator:
            await facts(engine, curator)
        await found.close()

    asyncio.run(held())
    assert model.last.header("authorization") == "Bearer no-key" and "environment" not in repr(model.last)


@pytest.mark.covers("U24")
def test_a_lent_key_carries_nothing_of_the_servers_own_account(
    engine: Engine, model: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-canary")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-canary")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer canary\nX-Team: canary")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-canary")

    async def held() -> None:
        found = lender(engine)
        for key in ("one", None):
            found.lend("s", 1, replace(loan(url=model.url), key=None if key is None else SecretStr(key)))
            async with found.reader("s", 1) as curator:
                await facts(engine, curator)
            assert model.last.header("authorization") == f"Bearer {key or 'no-key'}"
            assert "canary" not in repr(model.last)
        await found.close()
        own = OpenAILLM(OpenAILLM.Settings(base_url=model.url, api_key=SecretStr("own")))
        await own.generate("Answer.", "Hello")
        await own.close()

    asyncio.run(held())
    told = [model.last.header(name) for name in ("openai-organization", "openai-project", "x-team")]
    assert told == ["org-canary", "proj-canary", "canary"], "a configured model is asked as ever"
