"""Memories written by the release before (b67be4d, before the modules moved) open unchanged.

`database_home.tar.gz` is a `Memory` folder of two SQLite files, `markdown_folder.tar.gz` one of Markdown files in git.
In both Ana told that she lives in Lisbon and later that she moved to Porto, her sister's allergy was corrected by hand,
and a locker code was forgotten.
"""

from __future__ import annotations

import sqlite3
import tarfile
from pathlib import Path

import pytest

from perdure import Memory

HERE = Path(__file__).parent
ANA = {"user_id": "ana"}
PORTO = "User moved to Porto last week"
WALNUTS = "User's sister Rita is allergic to walnuts"
EMBEDDER = {"embedder": {"provider": "hashed"}}


def unpacked(name: str, folder: Path) -> Path:
    with tarfile.open(HERE / f"{name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
        return folder / archive.getnames()[0]


def opened_database(tmp_path: Path) -> Memory:
    home = unpacked("database_home", tmp_path)
    return Memory({"path": str(home), "episodes": "search", **EMBEDDER})


def opened_markdown(tmp_path: Path) -> Memory:
    home = unpacked("markdown_folder", tmp_path)
    store = {"vector_store": {"provider": "markdown", "config": {"git": True}}}
    return Memory({"path": str(home), "curator": "rules", "updates": "supersede", **store, **EMBEDDER})


@pytest.mark.parametrize("opened", [opened_database, opened_markdown])
def test_facts_their_history_and_their_past_are_there(tmp_path: Path, opened) -> None:
    with opened(tmp_path) as memory:
        assert {PORTO, WALNUTS} <= {item.memory for item in memory.get_all(**ANA).results}
        assert memory.search("where did the user move?", **ANA).results[0].memory == PORTO
        corrected = next(item for item in memory.get_all(**ANA).results if item.memory == WALNUTS)
        told = [(each.event, each.new_value) for each in memory.history(corrected.id)]
        assert told[0] == ("ADD", "User's sister Rita is allergic to nuts")
        assert ("UPDATE", WALNUTS) in told
        in_february = [item.memory for item in memory.get_all(as_of="2026-02-01", **ANA).results]
        assert "User lives in Lisbon" in in_february and PORTO not in in_february


@pytest.mark.parametrize("opened", [opened_database, opened_markdown])
def test_what_is_told_now_is_kept_beside_it(tmp_path: Path, opened) -> None:
    with opened(tmp_path) as memory:
        memory.add("I play the cello.", **ANA)
        assert "User plays the cello" in {item.memory for item in memory.get_all(**ANA).results}
    with sqlite3.connect(next(tmp_path.glob("*/history.db"))) as ledger:
        assert ledger.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    ledger.close()


def test_what_was_forgotten_stays_forgotten(tmp_path: Path) -> None:
    with opened_database(tmp_path) as memory:
        everything = memory.get_all(include_past=True, limit=1000, **ANA).results
        assert not [item for item in everything if "4711" in item.memory]
        assert not [hit for hit in memory.search("locker code", **ANA).results if "4711" in hit.memory]


def test_versions_of_the_files_are_read(tmp_path: Path) -> None:
    with opened_markdown(tmp_path) as memory:
        titles = [version.title for version in memory.versions.log()]
        assert titles[-1] == "Initial commit" and titles[0].startswith("Learned: ")
