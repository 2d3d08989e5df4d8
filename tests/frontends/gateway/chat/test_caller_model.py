"""U24 over real HTTP: the model that was asked also reads what was said, with the request's own key."""

from __future__ import annotations

import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from perdure.backends.extras import extra_line
from perdure.backends.http import service
from tests.frontends.gateway.conftest import gateway_to
from tests.frontends.gateway.dialects import CHAT, Speaker
from tests.frontends.gateway.scripts import Reply, completion, echo_chat
from tests.frontends.gateway.upstream import KEY, Exchange, Seen, Upstream
from tests.frontends.server.running import Running, bearer

pytestmark = pytest.mark.covers("U24")

GATEWAY: dict[str, Any] = {"extract_with_upstream": True, "summaries": False}
DIALECTS = pytest.mark.parametrize("dialect", ["chat", "responses"])
CANARY = "canary-4f1c9e27-of-a-client"
BEES = "User keeps bees on the roof"
SAID = "I live in Lisbon, and up on the roof it hums."
BY_RULES = "User lives in Lisbon"


def is_read(seen: Seen) -> bool:
    """Whether a request asks for facts, and not for an answer."""
    return seen.path == CHAT and "You read a conversation" in str(seen.messages[0]["content"])


def reads(model: Upstream) -> list[Seen]:
    return [each for each in model.of(CHAT) if is_read(each)]


def told(*facts: str) -> Reply:
    return Reply.of_json(completion(json.dumps({"facts": [{"text": each, "type": "semantic"} for each in facts]})))


def reading(model: Upstream, *replies: Reply, until: threading.Event | None = None) -> None:
    """Have the model read so, the last of the replies from then on, and answer whatever else it is asked."""
    left = list(replies)

    async def script(exchange: Exchange) -> None:
        if not is_read(exchange.seen):
            await exchange.play(echo_chat(exchange.seen.json))
            return
        reply = left.pop(0) if len(left) > 1 else left[0]
        if until is not None:
            await exchange._step(until)
        await exchange.play(reply)

    model.always(CHAT, script)


def facts(ana: Speaker) -> list[str]:
    return [each["content"] for each in ana.rows if each["type"] != "episodic"]


def warnings(caplog: pytest.LogCaptureFixture, text: str) -> int:
    """How often a text was warned of."""
    return sum(text in record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING)


# ------------------------------------------------------------------ who reads, and when
@pytest.mark.covers("U24", "V31")
@DIALECTS
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_the_clients_model_reads_after_the_answer_with_its_key(
    gateway: Running, model: Upstream, dialect: str, stream: bool
) -> None:
    may = threading.Event()
    reading(model, told(BEES), until=may)
    ana = Speaker(gateway, model, dialect)
    answer = ana.post(SAID, headers={"Authorization": "Bearer sk-ana"}, model="small", stream=stream)
    assert answer.text and facts(ana) == [], "the answer waited for no reading"
    may.set()
    ana.read()
    (read,) = reads(model)
    assert (read.header("authorization"), read.json["model"]) == ("Bearer sk-ana", "small")
    assert "it hums" in read.messages[1]["content"]
    assert not [name for name, _ in read.headers if name.lower().startswith(("x-memory", "x-authz", "x-session"))]
    assert facts(ana) == [BEES], "the model read, and not the rules"
    session = gateway.client.get(f"/v1/sessions/{ana.session}", headers=ana.headers).json()
    assert session["turns"] == 1, "the reading is no turn of its own"


@pytest.mark.covers("A2")
@pytest.mark.parametrize(("below", "path"), [("", CHAT), ("/v1", CHAT), ("/v1", "/chat/completions")])
def test_the_reading_goes_where_the_request_went(tmp_path: Path, model: Upstream, below: str, path: str) -> None:
    reading(model, told(BEES))
    address = model.url.removesuffix("/v1") + below
    with gateway_to(tmp_path / "memory", address, gateway=GATEWAY) as gateway:
        ana = Speaker(gateway, model, "chat")
        ana.path = path
        ana.told(SAID)
        assert facts(ana) == [BEES]
    assert [each.target for each in model.seen] == [CHAT, CHAT]


@pytest.mark.covers("V33")
@pytest.mark.parametrize("has_ledger", [True, False], ids=["kept", "episodes-off"])
def test_a_batch_of_responses_is_read_in_one_request(tmp_path: Path, model: Upstream, has_ledger: bool) -> None:
    reading(model, told(BEES))
    more = {} if has_ledger else {"episodes": "off"}
    settings = {**GATEWAY, "extraction_batch_size": 3}
    with gateway_to(tmp_path / "memory", model.url, gateway=settings, **more) as gateway:
        ana = Speaker(gateway, model, "responses")
        for text in ("My hives are on the roof.", "There are two of them.", "They hum, all day."):
            ana.post(text, headers=bearer("sk-ana"))
        assert model.until(lambda: bool(reads(model)))
        (read,) = reads(model)
        assert all(text in read.body.decode() for text in ("hives", "two of them", "all day"))
        assert read.header("authorization") == "Bearer sk-ana"
        for _ in range(2000):
            if facts(ana):
                break
            threading.Event().wait(0.01)
        assert facts(ana) == [BEES]


@pytest.mark.covers("U24")
def test_off_by_default_and_behind_a_model_that_is_configured(tmp_path: Path, model: Upstream) -> None:
    reading(model, told(BEES))
    scripted = {"rules": [{"match": ".", "answer": {"facts": [{"text": "User likes honey"}]}}]}
    own = {"extraction_llm": {"provider": "scripted", "config": scripted}}
    for place, (settings, config, learned) in enumerate([({}, {}, BY_RULES), (GATEWAY, own, "User likes honey")]):
        with gateway_to(tmp_path / str(place), model.url, gateway=settings, **config) as gateway:
            ana = Speaker(gateway, model, "chat")
            ana.post(SAID, headers=bearer("sk-ana"))
            ana.read()
            assert learned in facts(ana)
    assert reads(model) == []


@pytest.mark.covers("U25")
def test_the_key_that_went_up_reads_and_never_one_of_ours(tmp_path: Path, model: Upstream) -> None:
    reading(model, told(BEES))
    with gateway_to(tmp_path / "memory", model.url, gateway=GATEWAY) as gateway:
        ana = Speaker(gateway, model, "chat")
        ana.told(SAID)
        assert [each.header("authorization") for each in reads(model)] == [f"Bearer {KEY}"], "the configured one"
        ours = gateway.key("ana", user_id=ana.user)
        for headers, expected in (
            (bearer(ours), KEY),
            ({"X-API-Key": ours}, KEY),
            ({"X-API-Key": ours, **bearer("sk-own")}, "sk-own"),
        ):
            model.seen.clear()
            ben = Speaker(gateway, model, "chat", user=ana.user)
            body = ben.body(f"{SAID} So it does since {sorted(headers)}.")  # the same question is asked once
            gateway.client.post(CHAT, json=body, headers={**ben.headers, **headers}).raise_for_status()
            assert model.until(lambda: bool(reads(model)))
            assert [each.header("authorization") for each in reads(model)] == [f"Bearer {expected}"]
            assert ours not in repr(model.seen)
        model.seen.clear()
        foreign = gateway.client.post(CHAT, json=ana.body(SAID), headers=bearer("sk-foreign"))
        assert foreign.headers["x-memory-reason"] == "foreign_credentials"
        settle(gateway)
        assert reads(model) == []


def settle(gateway: Running) -> None:
    """Wait until nothing that was said is under way, and no job waits."""
    found = gateway.app.state.gateway
    work = found.remembering._work

    async def is_busy() -> bool:
        status = await (await gateway.service.ledger()).jobs.status([work._kind])
        return bool(status.pending or status.processing)

    for _ in range(3000):
        if not found.under_way and not gateway.wait(is_busy()):
            return
        threading.Event().wait(0.01)
    raise AssertionError("something is under way for ever")


# ------------------------------------------------------------------ where nothing is lent
@pytest.mark.covers("U24")
@pytest.mark.parametrize(
    ("headers", "more", "learns"),
    [
        ({"x-disable-router-memory": "true"}, {}, False),
        ({"x-memory-auto-store": "false"}, {}, False),
        ({}, {"memory_config": {"enabled": False}}, False),
        ({}, {"memory_config": {"auto_store": False}}, False),
        ({}, {"model": None}, True),
        ({}, {"model": "m" * 201}, True),
        ({"Authorization": "Basic YTpi"}, {}, True),
        ({"Authorization": "Bearer two keys"}, {}, True),
        ({"OpenAI-Organization": "org-1"}, {}, True),
        ({"api-key": "another"}, {}, True),
    ],
    ids=[
        "opt-out",
        "no-store",
        "disabled",
        "no-auto-store",
        "no-model",
        "long-model",
        "basic",
        "odd",
        "payer",
        "azure",
    ],
)
def test_what_is_not_lent_is_not_used(
    gateway: Running, model: Upstream, who: str, headers: dict[str, str], more: dict[str, Any], learns: bool
) -> None:
    reading(model, told(BEES))
    ana = Speaker(gateway, model, "chat", user=who)
    ana.post(SAID, headers=headers, **more)
    if learns:
        ana.read()
    settle(gateway)
    assert reads(model) == []
    assert (BY_RULES in facts(ana)) == learns and BEES not in facts(ana)


# ------------------------------------------------------------------ whose key reads whose words
@pytest.mark.covers("U24")
def test_the_keys_of_clients_never_cross(gateway: Running, model: Upstream) -> None:
    reading(model, told(BEES))
    names = [f"n{number:03}" for number in range(24)]

    def held(name: str) -> Speaker:
        ana = Speaker(gateway, model, "chat")
        with httpx.Client(base_url=gateway.url, timeout=60, verify=False) as client:
            for turn in range(2):
                body = ana.body(f"My locker is {name}, as I said {turn} times.", model=f"model-{name}")
                client.post(CHAT, json=body, headers={**ana.headers, **bearer(f"sk-{name}")}).raise_for_status()
        return ana

    with ThreadPoolExecutor(6) as pool:
        speakers = list(pool.map(held, names))
    for ana in speakers:
        ana.read()
    found = reads(model)
    assert len(found) == 2 * len(names)
    for read in found:
        (name,) = [name for name in names if name in read.body.decode()]
        assert f"My locker is {name}" in read.messages[1]["content"]
        assert (read.header("authorization"), read.json["model"]) == (f"Bearer sk-{name}", f"model-{name}")


@pytest.mark.covers("U24")
@DIALECTS
def test_in_one_session_a_key_reads_only_what_came_with_it(gateway: Running, model: Upstream, dialect: str) -> None:
    reading(model, Reply.error(400), told(BEES))  # the first reading fails, so that its turn waits
    ana = Speaker(gateway, model, dialect)
    ana.post("I live in Lisbon.", headers=bearer("sk-first"))
    if dialect == "chat":
        assert model.until(lambda: len(reads(model)) == 1)
    else:
        reading(model, told(BEES))
    settle(gateway)
    ana.post("Up on the roof it hums.", headers=bearer("sk-second"))
    ana.read()
    by = {read.header("authorization"): read.body.decode() for read in reads(model)}
    assert "it hums" in by["Bearer sk-second"] and "Lisbon" not in by["Bearer sk-second"]
    assert set(facts(ana)) == {BY_RULES, BEES}, "what the first key left is the rules' to read"


# ------------------------------------------------------------------ when something fails
@pytest.mark.covers("V6", "V7")
@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply.error(400), "Extraction failed, batch skipped"),
        (Reply.error(401), "Extraction failed, batch skipped"),
        (Reply.of_json(completion("Bees? I love bees.")), "Extraction parse failed"),
    ],
    ids=["v6-refused", "v6-key", "v7-bad-json"],
)
def test_what_could_not_be_read_waits_and_is_read_with_the_next(
    gateway: Running, model: Upstream, caplog: pytest.LogCaptureFixture, reply: Reply, words: str
) -> None:
    reading(model, reply)
    ana = Speaker(gateway, model, "chat")
    with caplog.at_level(logging.DEBUG, "perdure"):
        assert "echo" in ana.post(SAID, headers=bearer(CANARY)).text
        assert model.until(lambda: bool(reads(model)))
        settle(gateway)
    assert warnings(caplog, words) == 1 and facts(ana) == []
    assert CANARY not in caplog.text and "hums" not in caplog.text
    model.seen.clear()
    reading(model, told(BEES), told("User has a ladder"))
    ana.post("And there is my ladder.", headers=bearer(CANARY))
    ana.read()
    assert ["it hums" in each.body.decode() for each in reads(model)] == [True, False], "each in its order"
    assert set(facts(ana)) == {BEES, "User has a ladder"}


@pytest.mark.covers("U24")
def test_a_turn_whose_loan_is_gone_is_read_by_the_rules(
    tmp_path: Path, model: Upstream, caplog: pytest.LogCaptureFixture
) -> None:
    reading(model, Reply.error(400))
    with gateway_to(tmp_path / "memory", model.url, gateway=GATEWAY) as gateway:
        ana = Speaker(gateway, model, "chat")
        ana.post(SAID, headers=bearer(CANARY))
        assert model.until(lambda: bool(reads(model)))
        settle(gateway)
        assert facts(ana) == []
    reading(model, told("User has a ladder"))
    model.seen.clear()
    with (
        caplog.at_level(logging.DEBUG, "perdure"),
        gateway_to(tmp_path / "memory", model.url, gateway=GATEWAY) as gateway,
    ):
        again = Speaker(gateway, model, "chat", user=ana.user, session=ana.session)
        again.post("And there is my ladder.", headers=bearer(CANARY))
        again.read()
        assert {BY_RULES, "User has a ladder"} <= set(facts(again))
        for _ in range(2):
            again.new_session()
            again.post("My cat is called Mia.", headers={"Authorization": "Basic YTpi"})
            again.read()
    assert ["it hums" in each.body.decode() for each in reads(model)] == [False]
    assert warnings(caplog, "are read by the rules") == 1, "it is said once"


@pytest.mark.covers("U24")
def test_without_the_extra_the_rules_read_and_the_pip_line_is_said_once(
    tmp_path: Path, model: Upstream, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "installed", lambda module: module != "openai")
    reading(model, told(BEES))
    with (
        caplog.at_level(logging.DEBUG, "perdure"),
        gateway_to(tmp_path / "memory", model.url, gateway=GATEWAY) as gateway,
    ):
        ana = Speaker(gateway, model, "chat")
        for text in (SAID, "My cat is called Mia."):
            ana.post(text, headers=bearer(CANARY))
            ana.read()
        assert BY_RULES in facts(ana) and reads(model) == []
    assert warnings(caplog, extra_line("openai")) == 1


# ------------------------------------------------------------------ the key stays in memory
@pytest.mark.covers("U24")
def test_a_lent_key_stands_nowhere(tmp_path: Path, model: Upstream, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "memory"
    refused = Reply.error(401, f"Incorrect API key provided: {CANARY}")
    reading(model, refused, Reply.error(400, f"no such key: {CANARY}"), told(BEES))
    shown: list[str] = []
    with caplog.at_level(logging.DEBUG), gateway_to(folder, model.url, gateway=GATEWAY) as gateway:
        for dialect in ("chat", "responses"):
            ana = Speaker(gateway, model, dialect)
            for turn in range(3):
                shown.append(ana.post(f"{SAID} For {turn} years.", headers=bearer(CANARY)).text)
                settle(gateway)
            ana.read()
        assert {each.header("authorization") for each in reads(model)} == {f"Bearer {CANARY}"}
        remembering = gateway.app.state.gateway.remembering
        (lent, *_) = remembering._borrowing._lent.values()
        assert lent.grant.key.get_secret_value() == CANARY and lent.grant in remembering._borrowing._models
        shown += [repr(each) for each in (lent, lent.grant, str(lent.grant), remembering, remembering._borrowing)]
        shown += [gateway.client.get(path).text for path in ("/metrics", "/health")]
        on_disk = b"".join(each.read_bytes() for each in sorted(folder.rglob("*")) if each.is_file())
    on_disk += b"".join(each.read_bytes() for each in sorted(folder.rglob("*")) if each.is_file())
    assert b"it hums" in on_disk and CANARY.encode() not in on_disk
    assert warnings(caplog, "Extraction failed") >= 2 and CANARY not in caplog.text
    assert CANARY not in repr([vars(record) for record in caplog.records])
    assert CANARY not in "".join(shown)
