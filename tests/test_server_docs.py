"""docs/server.md and docs/graph.md cannot lie: requests are sent to a server, and the table is what the code says."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from json import loads
from pathlib import Path

import pytest
from pydantic import BaseModel

from perdure.frontends.server.settings import ServerSettings

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "server.md"
SAID = {
    "server.md": (
        *("Lisbon", "Budget for Hawaii is $15,000", "VALIDATED", "Tesla", "perdure_http_requests_total"),
        '"name":"Apollo","type":"concept","relationship":"leads"',
    ),
    "graph.md": ('"relation":"works_at"', '"relationship":"leads"', '"relationship":"mentioned_with"', '"by_kind"'),
}
"""What the answers to each page's requests say."""
ADDRESS = "http://localhost:8100"
BLOCK = re.compile(r"```(bash|py)\n(.*?)```", re.DOTALL)
HEAD = 'curl() { command curl --silent --show-error --fail-with-body "$@"; echo; }\nset -eu -o pipefail\n'


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Where `perdure` is found, and is told of this test's folder and secret."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    command = binaries / "perdure"
    command.write_text(f'#!/bin/sh\nexec "{Path(sys.executable).parent}/perdure" --path "{tmp_path}/memory" "$@"\n')
    command.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{binaries}:{os.environ['PATH']}",
        "PERDURE_JWT_SECRET": "a shared secret of more than 32 bytes",
        "MEM0_TELEMETRY": "False",
    }


@pytest.fixture
def address(environment: dict[str, str]) -> Iterator[str]:
    """A server such as the page starts, on a free port."""
    server = subprocess.Popen(
        ["perdure", "serve", "--port", "0", "--json"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdout is not None
    with server:
        try:
            told = ""
            for line in server.stdout:
                told += line
                if line.startswith("}"):
                    break
            yield loads(told)["url"]
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0


@pytest.mark.parametrize("page", SAID)
def test_the_pages_requests_are_answered(address: str, environment: dict[str, str], tmp_path: Path, page: str) -> None:
    blocks = BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))
    assert "bash" in {language for language, _ in blocks}
    script = HEAD
    for language, text in blocks:
        script += text if language == "bash" else f"\"{sys.executable}\" - <<'END'\n{text}END\n"
    script = script.replace(ADDRESS, address)
    done = subprocess.run(
        ["bash", "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    for said in SAID[page]:
        assert said in done.stdout, said


def settings(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from settings(inner, f"{prefix}{name}.")
        else:
            default = str(field.default).lower() if isinstance(field.default, bool) else field.default
            yield f"`{prefix}{name}`", "none" if default is None else f"`{default}`", f"{field.description}"


def test_the_table_of_settings_is_the_codes() -> None:
    rows = re.findall(r"^\| (`[a-z_.]+`) \| (.*?) \| (.*?) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    for row in settings(ServerSettings):
        assert row in rows, f"docs/server.md lacks | {' | '.join(row)} |"
