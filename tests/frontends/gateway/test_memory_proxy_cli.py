"""`perdure memory proxy`: the real program, whose memory is files, before a scripted model's server."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from perdure import MemoryClient
from perdure.frontends.cli.commands import proxy
from perdure.frontends.server import logging as logs
from tests.frontends.cli.runs import PROGRAM, Ran, perdure
from tests.frontends.gateway.scripts import Reply
from tests.frontends.gateway.test_proxy_cli import SECRET, answering, chat, environment
from tests.frontends.gateway.upstream import Upstream
from tests.frontends.library.test_memory_client_files import fields, files, git

pytestmark = pytest.mark.covers("A36")

ANNE = "My wife is named Anne"
WIFE = "What is the name of my wife?"


def options(folder: Path, *more: str) -> list[str]:
    return ["memory", "proxy", "--port", "0", "--memory-path", str(folder), "--embedding-model", "hashed", *more]


Served = tuple[str, Path]


@pytest.fixture(scope="module")
def served(model: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One proxy for the tests of this module, its address and its folder; each test has a conversation of its own."""
    folder = tmp_path_factory.mktemp("served") / "memories"
    with answering(*options(folder, "--openai-base-url", model.url), logs=folder.parent, env=environment()) as found:
        yield found[1], folder


def until(true: Callable[[], Any]) -> Any:
    end = time.monotonic() + 30
    while not (found := true()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def fact(folder: Path, conversation: str) -> Path:
    """The one file of a fact of a conversation, as soon as there is one."""
    (path,) = until(lambda: files(folder, f"{conversation}/facts"))
    return folder / "entries" / str(path)


def standing(address: str, conversation: str) -> list[str]:
    """The facts of a conversation, as the server tells them."""
    found = httpx.get(f"{address}/v1/memories", params={"run_id": conversation}, timeout=60).json()["results"]
    return [each["memory"] for each in found]


def asked(address: str, model: Upstream, conversation: str, text: str = WIFE) -> str:
    """What the model is told where somebody asks."""
    model.clear()
    assert chat(address, text, memory_id=conversation).status_code == 200
    return str(model.of("/v1/chat/completions")[-1].messages[-1]["content"])


# ------------------------------------------------------------------ chats and files
@pytest.mark.covers("A4")
@pytest.mark.covers("A38", "K63")
def test_the_openai_client_is_remembered_in_files(served: Served, model: Upstream) -> None:
    address, folder = served
    with openai.OpenAI(base_url=f"{address}/v1", api_key="dummy", max_retries=0) as client:
        said = client.chat.completions.create(model="m", messages=[{"role": "user", "content": ANNE}])
        assert said.choices[0].message.content == f"echo: [user] {ANNE}"
        told, body = fields(fact(folder, "default"))
        assert (told["conversation_id"], body) == ("default", "User's wife is named Anne"), "default: A4"
        until((folder / "entries/default/summaries/summary.md").exists)
        assert len(files(folder, "default")) == 4
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": WIFE}])
        assert "[memory] User's wife is named Anne" in model.last.messages[-1]["content"]
        assert [each.id for each in client.models.list()] == ["scripted"]


@pytest.mark.covers("K5", "K61")
def test_a_file_that_is_edited_is_told_in_the_next_request(served: Served, model: Upstream) -> None:
    address, folder = served
    chat(address, ANNE, memory_id="edited")
    path = fact(folder, "edited")
    path.write_text(path.read_text(encoding="utf-8").replace("named Anne", "named Marguerite"), encoding="utf-8")
    until(lambda: standing(address, "edited") == ["User's wife is named Marguerite"])
    assert "[memory] User's wife is named Marguerite" in asked(address, model, "edited")
    path.unlink()
    until(lambda: standing(address, "edited") == [])
    assert "[memory]" not in asked(address, model, "edited") and not path.exists()


@pytest.mark.covers("A37")
def test_what_is_added_beside_a_running_proxy_is_told_in_the_next_request(served: Served, model: Upstream) -> None:
    address, folder = served
    assert "Lisbon" not in asked(address, model, "beside", "Where does the user live?")
    ran = perdure("memory", "add", "User lives in Lisbon", "-c", "beside", "--memory-path", str(folder))
    assert (ran.status, ran.err) == (0, "")
    until(lambda: standing(address, "beside") == ["User lives in Lisbon"])
    assert "[memory] User lives in Lisbon" in asked(address, model, "beside", "Where does the user live?")
    until(lambda: any("Lisbon" in line for line in git(folder, "log", "--format=%B")))


@pytest.mark.covers("A1")
@pytest.mark.covers("A1")
def test_health_tells_the_store_the_server_and_top_k_as_text(served: Served, model: Upstream) -> None:
    told = httpx.get(f"{served[0]}/health", timeout=60).json()
    assert told == {"status": "ok", "memory_store": "markdown", "openai_base_url": model.url, "default_top_k": "5"}


@pytest.mark.covers("K8")
@pytest.mark.covers("K8", "K55", "K60")
def test_it_starts_and_stops_with_its_folder(model: Upstream, tmp_path: Path) -> None:
    """A file that changed meanwhile is taken in, what was said is committed, and MemoryClient has the same memories."""
    folder = tmp_path / "memories"
    env = environment(OPENAI_BASE_URL=model.url, OPENAI_API_KEY=SECRET)
    with answering(*options(folder), logs=tmp_path, env=env) as (process, address, log):
        chat(address, ANNE)
        assert model.last.header("authorization") == f"Bearer {SECRET}"
        path = fact(folder, "default")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert SECRET not in log.read_text() and "Anne" not in log.read_text()
    assert git(folder, "status", "--porcelain") == []
    assert "Learned: User's wife is named Anne" in "\n".join(git(folder, "log", "--format=%B"))
    path.write_text(path.read_text(encoding="utf-8").replace("named Anne", "named Jane"), encoding="utf-8")
    with answering(*options(folder), logs=tmp_path, env=env) as (process, address, _):
        assert "[memory] User's wife is named Jane" in asked(address, model, "default")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    told = [each["content"] for each in MemoryClient(folder, model.url, embedding_model="hashed").list_all()]
    assert "User's wife is named Jane" in told


# ------------------------------------------------------------------ options
@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What the command would serve: a server is made in this process, and not run."""
    found: list[Any] = []

    def run(settings: Any, listening: socket.socket, make: Callable[[], Any]) -> None:
        listening.close()
        app = make()
        found.append((app.state.service.memory.config, settings))

    monkeypatch.setattr(proxy.serve, "begin", lambda: None)
    monkeypatch.setattr(proxy.serve, "run", run)
    monkeypatch.setattr(logs, "to_standard_error", lambda: None)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "LOG_LEVEL"):
        monkeypatch.delenv(name, raising=False)
    levels = {name: logging.getLogger(name).level for name in ("perdure", "uvicorn")}
    yield found
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def here(*arguments: str) -> Ran:
    """Run it in this process."""
    from tests.frontends.cli import runs as cli_runs

    kept = cli_runs.LISTENING - {"proxy"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli_runs, "LISTENING", kept)
        return perdure(*arguments)


BARE = ("memory", "proxy", "--port", "0", "--openai-base-url", "http://127.0.0.1:9/v1")


@pytest.mark.covers("K58", "U24")
def test_without_options_it_is_002s_defaults(made: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert here(*BARE, "--openai-api-key", SECRET).status == 0
    ((config, server),) = made
    gateway = config.gateway
    assert (config.path, config.vector_store.provider) == (Path("memory_db"), "markdown")
    assert config.vector_store.config == {"watch": True, "git": True}
    assert (config.embedder.provider, config.embedder.config["model"]) == ("openai", "text-embedding-3-small")
    assert config.embedder.config["base_url"] == "http://127.0.0.1:9/v1"
    assert (gateway.default_retrieval_limit, gateway.max_entries, gateway.mmr_lambda) == (5, 500, 0.7)
    assert (gateway.recency_weight, gateway.threshold("chat"), gateway.summaries) == (0.2, None, True)
    assert (config.updates, config.episodes, gateway.extract_with_upstream) == ("supersede", "search", False)
    assert (server.host, server.workers) == ("127.0.0.1", 1)


CHOSEN = {
    "default-top-k": 3, "max-entries": 7, "mmr-lambda": 0.5, "recency-weight": 0.1, "score-threshold": 0.35,
    "summarization": False, "git-versioning": False, "embedding-model": "hashed",
}  # fmt: skip
VARIABLES = {
    "MEMORY_TOP_K": "3", "MEMORY_MAX_ENTRIES": "7", "MEMORY_MMR_LAMBDA": "0.5", "MEMORY_RECENCY_WEIGHT": "0.1",
    "MEMORY_SCORE_THRESHOLD": "0.35", "MEMORY_SUMMARIZATION": "false", "MEMORY_GIT_VERSIONING": "false",
    "EMBEDDING_MODEL": "hashed",
}  # fmt: skip


@pytest.mark.covers("A36", "K58")
@pytest.mark.parametrize("way", ["options", "file", "environment"])
def test_each_way_to_say_it(made: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    arguments = [*BARE, "--memory-path", str(tmp_path)]
    if way == "file":
        file = tmp_path / "config.toml"
        lines = [f"{name} = {json.dumps(value)}" for name, value in CHOSEN.items()]
        file.write_text("\n".join(["[memory.proxy]", *lines]), encoding="utf-8")
        arguments += ["--config", str(file)]
    elif way == "environment":
        for name, value in VARIABLES.items():
            monkeypatch.setenv(name, value)
    else:
        for name, value in CHOSEN.items():
            arguments += [f"--no-{name}"] if value is False else [f"--{name}", str(value)]
    ran = here(*arguments)
    assert ran.status == 0, ran.err
    ((config, _),) = made
    gateway = config.gateway
    assert (gateway.default_retrieval_limit, gateway.max_entries, gateway.mmr_lambda) == (3, 7, 0.5)
    assert (gateway.recency_weight, gateway.threshold("chat"), gateway.summaries) == (0.1, 0.35, False)
    assert (config.embedder.provider, config.vector_store.config["git"]) == ("hashed", False)


@pytest.mark.covers("A36")
def test_options_stand_above_the_environment_and_that_above_the_file(
    made: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        '[memory.proxy]\ndefault-top-k = 1\nmax-entries = 1\nopenai_base_url = "http://127.0.0.1:1/v1"\n'
        f'embedding-model = "hashed"\nmemory-path = "{tmp_path}"\n',
        encoding="utf-8",
    )
    monkeypatch.setenv("MEMORY_TOP_K", "2")
    monkeypatch.setenv("MEMORY_MAX_ENTRIES", "2")
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    ran = here("memory", "proxy", "--port", "0", "--default-top-k", "3", "--config", str(file), "--print-args")
    assert ran.status == 0, ran.err
    ((config, _),) = made
    gateway = config.gateway
    assert (gateway.default_retrieval_limit, gateway.max_entries, config.path) == (3, 2, tmp_path)
    assert str(gateway.upstream.base_url) == "http://127.0.0.1:1/v1"
    for line in ("default-top-k = 3", "max-entries = 2", "openai-api-key = ***", f"memory-path = {tmp_path}"):
        assert line in ran.err
    assert SECRET not in ran.err + ran.out


def test_what_nobody_set_is_printed_as_it_is_in_force(made: list[Any], tmp_path: Path) -> None:
    ran = here(*BARE, "--memory-path", str(tmp_path), "--print-args")
    assert ran.status == 0, ran.err
    ((config, _),) = made
    gateway = config.gateway
    told = dict(re.findall(r"([\w-]+) = (.*)", ran.err))
    assert "None" not in told.values()
    assert (told["host"], told["open"], told["git-versioning"]) == ("127.0.0.1", "False", "True")
    assert told["port"].isdecimal() and told["embedding-base-url"] == told["openai-base-url"]
    assert (told["default-top-k"], told["max-entries"]) == (str(gateway.default_retrieval_limit), "500")
    assert (told["mmr-lambda"], told["recency-weight"]) == (str(gateway.mmr_lambda), str(gateway.recency_weight))
    assert (told["summarization"], told["score-threshold"], told["openai-api-key"]) == ("True", "not set", "not set")


@pytest.mark.parametrize(
    ("text", "told"),
    [("[memory.proxy]\ntop = 3\n", "'top'"), ("[memory]\n", "[memory.proxy]"), ("nonsense", "cannot be read")],
)
def test_a_file_that_says_what_there_is_not_is_refused(made: list[Any], tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text, encoding="utf-8")
    ran = here(*BARE, "--config", str(file))
    assert ran.status == 2 and told in ran.err and made == []


@pytest.mark.covers("K59")
def test_without_a_server_it_does_not_start(made: list[Any], tmp_path: Path) -> None:
    ran = here("memory", "proxy", "--memory-path", str(tmp_path / "new"), "--embedding-model", "hashed")
    assert ran.status == 2 and "--openai-base-url" in ran.err
    assert made == [] and not (tmp_path / "new").exists()


def test_a_folder_of_records_is_refused(made: list[Any], tmp_path: Path) -> None:
    (tmp_path / "memories.db").write_bytes(b"")
    ran = here(*BARE, "--memory-path", str(tmp_path), "--embedding-model", "hashed")
    assert ran.status == 2 and "perdure copy" in ran.err and made == []


def test_another_address_than_this_machines_needs_keys_u25(tmp_path: Path) -> None:
    ran = subprocess.run(
        [*PROGRAM, *options(tmp_path, "--openai-base-url", "http://127.0.0.1:9/v1", "--host", "0.0.0.0")],
        capture_output=True, text=True, timeout=60, env=environment(),
    )  # fmt: skip
    assert ran.returncode == 2 and "can be reached by others" in ran.stderr


def test_i8_other_commands_open_the_folder_as_the_proxy_does(made: list[Any], tmp_path: Path) -> None:
    settings, arguments = tmp_path / "perdure.toml", [*BARE, "--memory-path", str(tmp_path)]
    assert here(*arguments, "--embedding-model", "hashed", "--openai-api-key", SECRET).status == 0
    assert perdure("memory", "add", "User lives in Lisbon", "--memory-path", str(tmp_path)).status == 0
    asyncio.run(_noted(tmp_path))
    for command in (["doctor"], ["log"], ["list", "--run-id", "default"]):
        ran = perdure(*command, "--path", str(tmp_path))
        assert ran.status == 0, ran.err
    assert here(*arguments, "--openai-api-key", SECRET).status == 2, "another embedder's vectors"
    assert "hashed" in settings.read_text() and SECRET not in settings.read_text()
    settings.write_text("# mine")
    assert here(*arguments, "--embedding-model", "hashed").status == 0
    assert settings.read_text() == "# mine"


async def _noted(folder: Path) -> None:
    """Open it as the proxy does, so that there is an index."""
    async with MemoryClient(folder, "http://127.0.0.1:9/v1", embedding_model="hashed") as client:
        await client.search("Lisbon")


# ------------------------------------------------------------------ embeddings
@pytest.mark.covers("K62")
@pytest.mark.covers("K62")
def test_the_length_of_an_unknown_models_vectors_is_asked_once(
    made: list[Any], model: Upstream, tmp_path: Path
) -> None:
    model.clear()
    model.play("/v1/embeddings", Reply.of_json({"data": [{"index": 0, "embedding": [0.1] * 12}]}))
    arguments = ["memory", "proxy", "--port", "0", "--memory-path", str(tmp_path), "--openai-base-url", model.url]
    arguments += ["--embedding-model", "embeddinggemma:300m"]
    assert here(*arguments, "--openai-api-key", SECRET).status == 0
    assert made[-1][0].embedder.config["dimensions"] == 12
    assert model.last.json["model"] == "embeddinggemma:300m"
    assert model.last.header("authorization") == f"Bearer {SECRET}"
    asked_for = len(model.seen)
    assert here(*arguments, "--embedding-dimensions", "24").status == 0
    assert made[-1][0].embedder.config["dimensions"] == 24 and len(model.seen) == asked_for
    model.play("/v1/embeddings", Reply.error(404, "no such model"))
    ran = here(*arguments)
    assert ran.status == 2 and "--embedding-dimensions" in ran.err and len(made) == 2
