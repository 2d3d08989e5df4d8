"""`perdure proxy`: the real program before a scripted model's server."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from perdure.frontends.cli.commands import proxy
from perdure.frontends.server import logging as logs
from tests.frontends.cli.runs import PROGRAM
from tests.frontends.gateway.scripts import Play, Reply, completion, delta, event
from tests.frontends.gateway.upstream import Upstream

pytestmark = pytest.mark.covers("A36", "K59", "K63", "U25")

SECRET = "sk-a-key-that-nobody-sees"
SETTINGS = '[embedder]\nprovider = "hashed"\n'


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "PERDURE_"))}
    return {**kept, **more}


@contextmanager
def proxied(folder: Path, *options: str, env: dict[str, str] | None = None) -> Iterator[tuple[Any, str, Path]]:
    """Run it on a free port until it answers; the process, its address, and where its log goes."""
    folder.mkdir(exist_ok=True)
    if not (folder / "perdure.toml").exists():
        (folder / "perdure.toml").write_text(SETTINGS)
    with answering("proxy", "--port", "0", "--path", str(folder), *options, logs=folder.parent, env=env) as found:
        yield found


@contextmanager
def answering(*arguments: str, logs: Path, env: dict[str, str] | None = None) -> Iterator[tuple[Any, str, Path]]:
    """Run a command that serves until it answers; the process, its address, and where its log goes."""
    log = logs / f"{time.monotonic_ns()}.log"
    command = [*PROGRAM, *arguments]
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=env or environment())
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("export OPENAI_BASE_URL=http://127.0.0.1:"), (line, log.read_text())
        address = line.strip().partition("=")[2].removesuffix("/v1")
        deadline = time.monotonic() + 60
        while True:
            try:
                if httpx.get(f"{address}/readyz", timeout=60).status_code == 200:
                    break
            except httpx.TransportError:
                pass
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield process, address, log
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()


def chat(address: str, text: str, **more: Any) -> httpx.Response:
    body = {"model": "m", "messages": [{"role": "user", "content": text}], **more}
    return httpx.post(f"{address}/v1/chat/completions", json=body, timeout=60)


@pytest.mark.covers("K63")
def test_a_client_needs_nothing_but_the_address_that_is_printed(model: Upstream, tmp_path: Path) -> None:
    env = environment(OPENAI_API_KEY=SECRET, OPENAI_BASE_URL=model.url)
    with proxied(tmp_path / "memory", env=env) as (process, address, log):
        answer = chat(address, "Hello there")
        assert answer.status_code == 200
        assert model.last.header("authorization") == f"Bearer {SECRET}"
        assert httpx.get(f"{address}/v1/models", timeout=60).json()["data"][0]["id"] == "scripted"
        assert httpx.get(f"{address}/v1/memories", params={"user_id": "ana"}, timeout=60).status_code == 200, (
            "serve's routes too"
        )
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert SECRET not in log.read_text()


@pytest.mark.covers("A36")
def test_sigterm_lets_a_stream_come_to_its_end_and_keeps_it(model: Upstream, tmp_path: Path) -> None:
    words = [event(delta(f"word{n} ")) for n in range(5)]
    model.chat(Reply.stream(*[step for word in words for step in (word, 0.1)], event("[DONE]")))
    with proxied(tmp_path / "memory", "--openai-base-url", model.url) as (process, address, _):
        body = {"messages": [{"role": "user", "content": "Go on"}], "stream": True}
        with httpx.stream("POST", f"{address}/v1/chat/completions", json=body, timeout=60) as answer:
            chunks = answer.iter_bytes()
            first = next(chunks)
            process.send_signal(signal.SIGTERM)
            rest = b"".join(chunks)
        assert b"word4" in first + rest
        assert (first + rest).endswith(b"[DONE]\n\n")
        assert process.wait(60) == 0


def test_the_options_are_the_gateways_settings(model: Upstream, tmp_path: Path) -> None:
    options = ("--default-top-k", "3", "--max-entries", "7", "--mmr-lambda", "0.5", "--recency-weight", "0.1")
    options += ("--score-threshold", "0.35", "--no-summarization", "--log-level", "debug", "--openai-api-key", SECRET)
    with proxied(tmp_path / "memory", "--openai-base-url", model.url, *options) as (process, address, log):
        health = httpx.get(f"{address}/health", timeout=60).json()
        assert health["default_top_k"] == "3"
        assert health["openai_base_url"] == model.url
        chat(address, "Hello there")
        assert model.last.header("authorization") == f"Bearer {SECRET}"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert SECRET not in log.read_text()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--openai-base-url", "ftp://model"), "base_url"),
        (("--score-threshold", "2"), "score-threshold"),
        (("--log-level", "loud"), "log-level"),
        (("--host", "0.0.0.0"), "can be reached by others"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_what_cannot_be_served_is_refused(options: tuple[str, ...], told: str, tmp_path: Path) -> None:
    found = subprocess.run(
        [*PROGRAM, "proxy", "--port", "0", "--path", str(tmp_path), *options],
        capture_output=True, text=True, timeout=60, env=environment(),
    )  # fmt: skip
    assert found.returncode in (1, 2)
    assert told in found.stderr


def test_it_refuses_to_be_its_own_model(tmp_path: Path) -> None:
    found = subprocess.run(
        [*PROGRAM, "proxy", "--port", "18123", "--path", str(tmp_path)],
        capture_output=True, text=True, timeout=60, env=environment(OPENAI_BASE_URL="http://localhost:18123/v1"),
    )  # fmt: skip
    assert found.returncode == 2
    assert "itself" in found.stderr


@pytest.mark.covers("K63")
def test_curl_streams_and_asks_for_models(model: Upstream, tmp_path: Path) -> None:
    try:
        subprocess.run(["curl", "--version"], capture_output=True, check=True)
    except FileNotFoundError:
        pytest.skip("there is no curl")
    body = json.dumps({"messages": [{"role": "user", "content": "Olá"}], "stream": True})
    with proxied(tmp_path / "memory", "--openai-base-url", model.url) as (_, address, _log):
        told = subprocess.run(
            ["curl", "-sN", f"{address}/v1/chat/completions", "-H", "Content-Type: application/json", "-d", body],
            capture_output=True, check=True, timeout=60,
        ).stdout  # fmt: skip
        assert told == b"".join(model.exchanges[-1].sent)
        model.chat(Reply.of_json(completion("all of it")))
        answer = subprocess.run(
            ["curl", "-s", f"{address}/v1/chat/completions", "--json", body.replace("true", "false")],
            capture_output=True, check=True, timeout=60,
        ).stdout  # fmt: skip
        assert json.loads(answer)["choices"][0]["message"]["content"] == "all of it"
        model.chat(Reply.stream(event(delta("begun")), Play.HANG))
        left = subprocess.run(
            ["curl", "-sN", "-m", "2", f"{address}/v1/chat/completions", "--json", body],
            capture_output=True,
            timeout=60,
        )
        assert b"begun" in left.stdout
        assert model.until(lambda: model.gone == 1), "the model works on for nobody"


@pytest.mark.covers("V89")
@pytest.mark.covers("V59", "V60", "V89")
def test_a_file_of_001s_settings(model: Upstream, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("memory:\n  enabled: false\nembedder:\n  provider: hashed\n")
    options = ("--openai-base-url", model.url, "--config", str(file))
    with proxied(tmp_path / "memory", *options) as (_, address, _):
        answer = chat(address, "I live in Oslo")
        assert (answer.status_code, answer.headers["x-memory-status"]) == (200, "disabled")
    file.write_text("memory:\n  embedding:\n    model: all-MiniLM-L6-v2\n    dimension: 1024\n")
    refused = subprocess.run(
        [*PROGRAM, "proxy", "--port", "0", "--path", str(tmp_path / "memory"), *options],
        capture_output=True, text=True, timeout=120, env=environment(),
    )  # fmt: skip
    assert refused.returncode == 2
    assert "memory.embedding.dimension must be 384" in refused.stderr


@pytest.mark.covers("K58")
def test_the_score_threshold_is_a_chats_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process: a server is made, and not run."""
    made: list[Any] = []

    def run(_: Any, listening: socket.socket, make: Callable[[], Any]) -> None:
        listening.close()
        made.append(make().state.gateway.settings)

    monkeypatch.setattr(proxy.serve, "begin", lambda: None)
    monkeypatch.setattr(proxy.serve, "run", run)
    monkeypatch.setattr(logs, "to_standard_error", lambda: None)
    levels = {name: logging.getLogger(name).level for name in ("perdure", "uvicorn")}
    for threshold in (None, 0.35):
        proxy.proxy(port=0, base_url="http://127.0.0.1:9/v1", score_threshold=threshold, path=tmp_path)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    told = [(each.threshold("chat"), each.threshold("responses")) for each in made]
    assert told == [(None, None), (0.35, None)]


def test_17c1_the_proxy_answers_no_page_of_somebody_elses(tmp_path: Path, model: Upstream) -> None:
    chat = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    with proxied(tmp_path / "memory", "--openai-base-url", model.url) as (_, address, _log):
        for headers, status in (
            ({"Origin": "http://evil.example"}, 403),
            ({"Sec-Fetch-Site": "cross-site"}, 403),
            ({"Host": "evil.example"}, 421),
        ):
            for path in ("/v1/chat/completions", "/v1/embeddings", "/v1/reset"):
                assert httpx.post(f"{address}{path}", json=chat, headers=headers, timeout=60).status_code == status, (
                    path,
                    headers,
                )
        assert model.seen == []
        assert httpx.post(f"{address}/v1/chat/completions", json=chat, timeout=60).status_code == 200
