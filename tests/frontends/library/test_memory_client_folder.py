"""The folder of a MemoryClient, which has no settings, read by the program."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from perdure import MemoryClient
from tests.frontends.cli.runs import HASHED, perdure

ANNE = "My wife is named Anne"
WIFE = "What is the name of my wife?"


def with_client(folder: Path, work: Callable[[MemoryClient], Awaitable[None]]) -> None:
    """Do some work with a client that asks no server."""

    async def run() -> None:
        async with MemoryClient(folder, "http://127.0.0.1:9/v1", embedding_model="hashed") as client:
            await work(client)

    asyncio.run(run())


def test_a_folder_embedded_by_words_is_read_by_the_program_without_settings(tmp_path: Path) -> None:
    folder = tmp_path / "db"

    async def work(client: MemoryClient) -> None:
        await client.add(ANNE)

    with_client(folder, work)
    assert not (folder / "perdure.toml").exists()
    log = perdure("log", "--path", str(folder))
    assert log.status == 0 and "Anne" in log.out, log.err
    doctor = perdure("doctor", "--path", str(folder))
    assert doctor.status == 0, doctor.err
    found = perdure("search", WIFE, "--run-id", "default", "--path", str(folder), "--json")
    assert "User's wife is named Anne" in {each["memory"] for each in found.json["results"]}
    with_client(folder, work)


def test_records_embedded_by_words_are_not_taken_for_another_model_s(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    made = perdure("add", "note", "--user-id", "ana", "--no-infer", "--path", str(folder), env=None)
    assert made.status == 0, made.err
    (folder / "perdure.toml").write_text(HASHED, encoding="utf-8")
    refused = perdure("list", "--user-id", "ana", "--path", str(folder))
    assert refused.status != 0 and "reindex" in refused.err, "what settings name is held to"
