"""V5, V43 on the write side: an embedder that is down costs no fact, and one fact that it refuses costs no other."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from perdure.engine.chat.settings import Dialect
from perdure.engine.chat.turn_log import own_session
from tests.backends.wire.openai import KEY
from tests.engine.chat.talks import ANN, World, run, talk
from tests.engine.write.test_embedding_failures import Moody

pytestmark = pytest.mark.covers("V5", "V43")

DIALECTS = pytest.mark.parametrize("dialect", ["chat", "responses"])
ONE_TURN = {"extraction_batch_size": 1}


def embedder(wire: Moody) -> dict[str, object]:
    return {"provider": "openai", "config": {"base_url": wire.base_url, "api_key": KEY, "retries": 0}}


@pytest.mark.covers("V5")
@DIALECTS
@pytest.mark.parametrize("way", ["authentication", "connection", "quota"])
def test_what_is_said_while_the_embedder_is_down_is_learned_when_it_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, dialect: Dialect, way: str
) -> None:
    async def work(opened: World) -> None:
        talked = talk(dialect=dialect)
        await opened.say(talked, ["I like tea."])
        await opened.settle()
        assert await opened.facts() == []
        ledger = opened.engine.kernel.ledger
        assert ledger is not None
        session = await own_session(opened.engine.kernel, ledger, "s1", ANN)
        assert session is not None and (session.turns, session.read_turns) == (1, 0)
        assert "Embedding failed, batch skipped" in caplog.text and "tea" not in caplog.text
        wire.word = None
        await opened.say(talked, ["I was born in Oslo."])
        await opened.settle()
        assert sorted(await opened.facts()) == ["User likes tea", "User was born in Oslo"]

    with Moody(way) as wire, caplog.at_level(logging.DEBUG, "perdure"):
        run(work, tmp_path, settings=ONE_TURN, embedder=embedder(wire))


@pytest.mark.covers("V43")
@DIALECTS
def test_a_fact_that_alone_cannot_be_embedded_holds_up_nothing(tmp_path: Path, dialect: Dialect) -> None:
    async def work(opened: World) -> None:
        talked = talk(dialect=dialect)
        await opened.say(talked, ["I like tea. I was born in Oslo.", "I have a cat named Mia."])
        await opened.settle()
        assert sorted(await opened.facts()) == ["User has a cat named Mia", "User was born in Oslo"]

    with Moody("server") as wire:
        run(work, tmp_path, settings=ONE_TURN, embedder=embedder(wire))
