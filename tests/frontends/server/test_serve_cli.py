"""`perdure serve`, the real program: where it listens, whom it lets in, its workers, and what it says."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import httpx
import pytest

from perdure.backends.extras import extra_line
from perdure.frontends.cli.commands.serve import serving_config
from perdure.frontends.cli.main import main
from tests.frontends.cli.runs import Folder, folder, perdure
from tests.frontends.server.running import SECRET, bearer
from tests.frontends.server.served import served


@pytest.fixture
def at(tmp_path: Path) -> Folder:
    return folder(tmp_path / "memory")


def test_loopback_runs_open_and_ends_with_status_0(at: Folder) -> None:
    with served(at.path) as server:
        assert server.told["url"].startswith("http://127.0.0.1:")
        assert server.client.get("/v1/memories/", params={"user_id": "ana"}).json()["results"] == []
        assert server.client.get("/healthz").headers.get("server") is None
        assert server.stop() == 0
    logged = [line for line in server.lines if line["logger"] == "perdure.server.requests"]
    assert {line["route"] for line in logged} == {"/readyz", "/healthz", "/v1/memories"}
    assert "ana" not in server.log.read_text()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.255.255.1", "example.org"])
def test_another_address_is_refused_without_keys(at: Folder, host: str) -> None:
    ran = at("serve", "--host", host, "--port", "0")
    assert ran.status == 2
    assert "perdure keys create" in ran.err
    assert "--open" in ran.err
    assert ran.out == ""


def test_what_is_refused_makes_no_memory(tmp_path: Path) -> None:
    ran = perdure("serve", "--host", "0.0.0.0", "--port", "0", "--path", str(tmp_path / "new"))
    assert (ran.status, "there is no key" in ran.err) == (2, True), ran.err
    assert not any(tmp_path.iterdir())


def test_open_serves_everybody_and_warns(at: Folder) -> None:
    with served(at.path, "--host", "0.0.0.0", "--open") as server:
        assert server.told["open"] is True
        assert server.client.get("/metrics").status_code == 200
        at.ask("keys", "create", "app")
        assert server.client.get("/metrics").status_code == 401, "once a key exists, every address asks for one"
    assert "everybody who can reach 0.0.0.0 is served without a key" in server.log.read_text()


def test_another_address_is_served_once_there_is_a_key(at: Folder) -> None:
    secret = at.ask("keys", "create", "app")["key"]
    with served(at.path, "--host", "0.0.0.0") as server:
        assert server.client.get("/metrics").status_code == 401
        assert server.client.get("/metrics", headers=bearer(secret)).status_code == 200


def test_another_address_is_served_to_tokens_alone(at: Folder) -> None:
    env = {**os.environ, "PERDURE_JWT_SECRET": SECRET}
    with served(at.path, "--host", "0.0.0.0", env=env) as server:
        assert server.client.get("/docs").status_code == 401
        made = perdure("keys", "token", "--sub", "ana", "--path", str(at.path), env=env).out.strip()
        assert server.client.get("/docs", headers=bearer(made)).status_code == 200
        assert server.stop() == 0
    assert SECRET not in server.log.read_text()


def test_two_workers_share_one_memory_and_count_together(at: Folder) -> None:
    with served(at.path, "--workers", "2") as server:
        made = server.client.post(
            "/v1/memories",
            json={"messages": [{"role": "user", "content": "User has a dog"}], "user_id": "ana", "infer": False},
        )
        assert made.status_code == 200
        url = f"{server.client.base_url}"
        for _ in range(20):
            # A connection each, so that both are asked.
            ran = httpx.get(f"{url}/v1/memories", params={"user_id": "ana"}, timeout=60)
            assert [item["memory"] for item in ran.json()["results"]] == ["User has a dog"]
        counted = 'perdure_http_requests_total{method="GET",route="/v1/memories",status="200"} 20.0'
        assert counted in server.client.get("/metrics").text
        at.ask("keys", "create", "app")
        assert {httpx.get(f"{url}/metrics", timeout=60).status_code for _ in range(10)} == {401}
        assert server.stop() == 0
    started = {line["message"] for line in server.lines if line["message"].startswith("Started server process")}
    assert len(started) == 2


def test_a_port_that_is_taken_is_said_in_one_line(at: Folder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ran = at("serve", "--port", str(taken.getsockname()[1]))
    assert ran.status == 1
    assert "cannot listen on 127.0.0.1" in ran.err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[server]\nprot = 1\n", "server.prot is no setting, did you mean 'port'?"),
        ("[server]\nport = 70000\n", "server.port"),
        ('[server.jwt]\nsecret = "x"\n', "server.jwt.secret"),
        ('[server.jwt]\npublic_key = "nowhere.pem"\n', "nowhere.pem"),
    ],
)
def test_a_setting_that_is_wrong_is_named(at: Folder, text: str, told: str) -> None:
    (at.path / "perdure.toml").write_text(text)
    ran = at("serve")
    assert ran.status == 2
    assert told in ran.err


# ------------------------------------------------------------------ what is served


def configured(at: Folder, text: str) -> Folder:
    (at.path / "perdure.toml").write_text(text)
    return at


def test_serve_has_the_sqlite_graph_unless_told_otherwise(at: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def provider() -> str | None:
        store = serving_config(at.path, {}).graph_store
        return None if store is None else store.provider

    assert provider() == "sqlite"
    configured(at, '[graph_store]\nprovider = "none"\n')
    assert provider() is None
    configured(at, '[graph_store]\nprovider = "neo4j"\n')
    assert provider() == "neo4j"
    configured(at, "")
    monkeypatch.setenv("PERDURE_GRAPH_STORE__PROVIDER", "none")
    assert provider() is None


def test_options_stand_above_variables_and_those_above_the_file(at: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    configured(at, "[server]\nport = 1\nworkers = 2\nmax_body_bytes = 3\n")
    monkeypatch.setenv("PERDURE_SERVER__WORKERS", "4")
    monkeypatch.setenv("PERDURE_SERVER__PORT", "5")
    found = serving_config(at.path, {"port": 6}).server
    assert (found["port"], found["workers"], found["max_body_bytes"]) == (6, "4", 3)


@pytest.mark.parametrize("command", [["serve"], ["keys", "token", "--sub", "ana"]])
def test_without_the_extra_the_pip_line_is_told(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    assert main([*command, "--path", str(tmp_path)]) == 1
    assert extra_line("server") in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
