"""A client does not wait for the engine: the tools are listed before it is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROBE = """
import asyncio, sys
from pathlib import Path
from mcp.client.client import Client
from perdure.domain.scope import Scope
from perdure.frontends.cli.open_memory import read_settings
from perdure.frontends.mcp.consent import Consent
from perdure.frontends.mcp.tool import tools_of
from perdure.frontends.mcp.server import build_server
from perdure.frontends.mcp.stdio import FolderAccess

HEAVY = {"numpy", "sqlalchemy", "onnxruntime", "perdure.engine.engine", "perdure.frontends.library.memory"}

async def main():
    access = FolderAccess(lambda: read_settings(Path(sys.argv[1])), Scope(user_id="ana"))
    async with Client(build_server(tools_of(("core",)), access, Consent())) as client:
        print(len((await client.list_tools()).tools), sorted(HEAVY & set(sys.modules)))
        result = await client.call_tool("recall", {"query": "tea"})
        print(result.is_error, "perdure.engine.engine" in sys.modules)
    await access.close()

asyncio.run(main())
"""


def test_the_tools_are_listed_before_the_engine_is_imported(tmp_path: Path) -> None:
    (tmp_path / "perdure.toml").write_text('[embedder]\nprovider = "hashed"\n', encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", PROBE, str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    listed, called = done.stdout.splitlines()
    assert listed.split(" ", 1)[1] == "[]"
    assert called == "False True"
