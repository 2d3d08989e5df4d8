"""The protocol's own suite, npm `@modelcontextprotocol/conformance`, against perdure's own app.

Once with the fixtures that it asks for beside perdure's tools, open and with keys, and once against the server as it
is. The questions that a server of 2025 asks during a call need a session, which perdure's server does not keep: for
that revision the same server stands behind the SDK's sessions.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure.frontends.mcp import server as product
from tests.conformance.fixtures import Events, with_fixtures
from tests.conformance.programs import QUIET, needs, program
from tests.frontends.server.running import Running, running

# Read at import: every test runs in an environment without the developer's own variables.
SUITE = program("conformance")
PATH = os.environ["PATH"]
NEW, OLD = "2026-07-28", "2025-11-25"
TASKS = "tasks-"
"""Scenarios of the extension Tasks, which perdure does not offer: the suite scores them under no revision."""

pytestmark = [
    needs("conformance", SUITE),
    # Logging and sampling are deprecated, and the suite asks for them all the same.
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]


class WithKey:
    """Adds a key to every request: the suite cannot send one."""

    def __init__(self, app: Any, key: str) -> None:
        self._app, self._header = app, (b"authorization", f"Bearer {key}".encode())

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": [*scope["headers"], self._header]}
        await self._app(scope, receive, send)


@contextmanager
def judged(folder: Path, patch: pytest.MonkeyPatch, revision: str, keyed: bool) -> Iterator[Running]:
    """A server with the fixtures."""
    build = product.build_server
    patch.setattr(product, "build_server", lambda *given, **more: with_fixtures(build(*given, **more)))
    if revision == OLD:
        from mcp.server import streamable_http_manager as manager

        kind = manager.StreamableHTTPSessionManager

        def with_sessions(server: Any, **given: Any) -> Any:
            return kind(server, **{**given, "stateless": False, "event_store": Events(), "retry_interval": 100})

        patch.setattr(manager, "StreamableHTTPSessionManager", with_sessions)
    with running(folder) as server:
        if keyed:
            key = server.key("judge", user_id="ana")
            assert server.client.post("/mcp", json={}).status_code == 401, "the key is needed"
            server.app.middleware_stack = WithKey(server.app.middleware_stack, key)
        yield server


def judge(url: str, results: Path, *options: str) -> dict[str, Counter[str]]:
    """Run the suite; the count of each status by scenario. It tells what failed."""
    assert SUITE is not None
    command = [SUITE, "server", "--url", url, "-o", str(results), *options]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=240, env={**os.environ, **QUIET, "PATH": PATH}
    )
    found: dict[str, Counter[str]] = {}
    told = []
    for file in sorted(results.glob("*/checks.json")):
        name = file.parent.name.removeprefix("server-").partition("-2026-")[0].partition("-2027-")[0]
        checks = json.loads(file.read_text(encoding="utf-8"))
        found.setdefault(name, Counter()).update(check["status"] for check in checks)
        told += [f"{name}: {check['id']}: {check.get('errorMessage')}" for check in checks if failed(check)]
    assert found, done.stdout + done.stderr
    print(f"\n{' '.join(options)}: {sum(each['SUCCESS'] for each in found.values())} passed", *told, sep="\n  ")
    return found


def failed(check: dict[str, Any]) -> bool:
    return check["status"] in ("FAILURE", "WARNING")


def passed(found: dict[str, Counter[str]]) -> int:
    """How many checks passed, where none failed."""
    assert {name: dict(counts) for name, counts in found.items() if counts["FAILURE"] or counts["WARNING"]} == {}
    return sum(counts["SUCCESS"] for counts in found.values())


@pytest.mark.parametrize("keyed", [False, True], ids=["open", "with a key"])
@pytest.mark.parametrize(("revision", "checks"), [(NEW, 152), (OLD, 84)])
def test_every_scenario_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, revision: str, checks: int, keyed: bool
) -> None:
    with judged(tmp_path / "memory", monkeypatch, revision, keyed) as server:
        url = f"{server.url}/mcp" if keyed else f"{server.url}/mcp/ana"
        found = judge(url, tmp_path / "results", "--suite", "all", "--spec-version", revision)
    assert passed({name: counts for name, counts in found.items() if not name.startswith(TASKS)}) == checks


OWN = (
    "tools-list",
    "caching",
    "http-header-validation",
    "dns-rebinding-protection",
    "sep-2164-resource-not-found",
    "resources-list",
    "prompts-list",
    "ping",
    "server-initialize",
)


def test_the_server_as_it_is_passes_what_needs_no_fixture(tmp_path: Path) -> None:
    with running(tmp_path / "memory") as server:
        for name in OWN:
            revision = OLD if name in ("ping", "server-initialize") else NEW
            results = tmp_path / "results" / name
            found = judge(f"{server.url}/mcp/ana", results, "--scenario", name, "--spec-version", revision)
            assert passed(found) > 0
