"""MCP clients: how soon `perdure mcp` lists its tools, and whether several processes lose writes.

    python benchmarks/mcp_clients.py [--starts 7] [--processes 4] [--writes 500]

Starts are beside `python -c pass` and the SDK's own bare server, which has no tools and does nothing: seconds differ
from machine to machine, the ratio hardly. Memory and time of the first answer are of a client alone, and of one beside
a `perdure serve` of the same folder.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

from perdure import Memory

PERDURE = [sys.executable, "-m", "perdure.frontends.cli.main"]
BARE = """
import anyio, mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
async def tools(context, params): return types.ListToolsResult(tools=[])
async def main():
    server = Server("bare", version="1", on_list_tools=tools)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())
anyio.run(main)
"""
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
FIRST = (
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
)
RECALL = {"name": "recall", "arguments": {"query": "Where does the user live?"}}
CALL = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": RECALL}


def listed(command: list[str], *, call: bool = False) -> tuple[float, float]:
    """Seconds from the start to the list of tools, or to the first answer, and the process's megabytes then."""
    messages = [*FIRST, CALL] if call else [*FIRST]
    last = messages[-1]["id"]
    began = time.perf_counter()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write("".join(json.dumps(each) + "\n" for each in messages))
        server.stdin.flush()
        for line in server.stdout:
            told = json.loads(line)
            if told.get("id") == last:
                assert "result" in told and not told["result"].get("isError"), told
                break
        else:
            raise AssertionError("no answer")
        took = time.perf_counter() - began
        pages = int(Path(f"/proc/{server.pid}/statm").read_text(encoding="ascii").split()[1])
        server.kill()
    return took, pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def passed() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - began


def starts(count: int, folder: Path) -> None:
    command = [*PERDURE, "mcp", "--user-id", "ana", "--path", str(folder)]
    listed(command)  # files that are read for the first time
    # In turns, so that the machine's mood meets all three.
    taken = [(listed(command)[0], listed([sys.executable, "-c", BARE])[0], passed()) for _ in range(count)]
    ours, bare, nothing = (statistics.median(column) for column in zip(*taken, strict=True))
    print(f"spawn to tools/list, median of {count}: perdure {ours:.2f} s, the SDK's bare server {bare:.2f} s,")
    print(f"python -c pass {nothing:.3f} s; perdure took {ours / bare:.2f} times as long as the bare server and")
    print(f"{ours / nothing:.0f} times as long as python -c pass; the quickest {min(each[0] for each in taken):.2f} s")
    alone = [listed(command, call=True) for _ in range(3)]
    serve = [*PERDURE, "serve", "--port", "0", "--path", str(folder)]
    with subprocess.Popen(serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        while not (folder / ".serving").is_file() or not (folder / ".serving").read_text(encoding="utf-8"):
            time.sleep(0.05)
        listed(command, call=True)  # the server loads its model
        beside = [listed(command, call=True) for _ in range(3)]
        server.kill()
    for name, found in (("alone", alone), ("beside perdure serve", beside)):
        seconds, size = (statistics.median(column) for column in zip(*found, strict=True))
        print(f"{name}: first recall after {seconds:.2f} s, {size:.0f} MB")


async def writes(processes: int, count: int, folder: Path) -> None:
    told: list[dict[str, Any]] = []

    async def write(number: int) -> None:
        command = [*PERDURE, "mcp", "--user-id", f"user-{number % 2}", "--path", str(folder)]
        parameters = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
        async with Client(parameters) as client:
            for call in range(count):
                fact = f"Box {number}-{call} holds {call * 7 + number} lamps"
                answer = await client.call_tool("remember", {"facts": [fact]})
                assert not answer.is_error and answer.structured_content is not None, answer.content
                told.extend(answer.structured_content["results"])

    began = time.perf_counter()
    await asyncio.gather(*(write(number) for number in range(processes)))
    took = time.perf_counter() - began
    lost = 0
    with Memory({"path": str(folder), "embedder": {"provider": "hashed"}}) as memory:
        written = [each for each in told if each["event"] != "NONE"]
        for each in written:
            records = {record.id: record.new_value for record in memory.history(each["id"])}
            lost += records.get(each["event_id"]) != each["memory"]
    print(f"{processes} processes, {count} calls each in {took:.0f} s: {len(told)} facts acknowledged,")
    print(f"{len(written)} of them written, {lost} lost")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=7)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--writes", type=int, default=500)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "starts"
        with Memory.local(folder) as memory:
            memory.add("I live in Lisbon", user_id="ana")
        starts(given.starts, folder)
        folder = Path(place) / "writes"
        folder.mkdir()
        (folder / "perdure.toml").write_text('[embedder]\nprovider = "hashed"\n', encoding="utf-8")
        asyncio.run(writes(given.processes, given.writes, folder))


if __name__ == "__main__":
    main()
