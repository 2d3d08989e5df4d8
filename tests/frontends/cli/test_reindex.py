"""The command line: reindex and copy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.frontends.cli.runs import HASHED, Folder, folder

SHORT = f"{HASHED}config = {{ dimensions = 64 }}\n"


@pytest.fixture
def at(tmp_path: Path) -> Folder:
    found = folder(tmp_path / "memory")
    found("add", "I live in Lisbon. I have a cat called Miso.", "--user-id", "ana")
    found.said("kept word for word")
    return found


def test_reindex_goes_to_the_configured_embedder(at: Folder) -> None:
    (at.path / "perdure.toml").write_text(SHORT, encoding="utf-8")
    refused = at("list", "--user-id", "ana")
    assert refused.status == 2
    assert "perdure reindex" in refused.err
    held = at.ask("reindex", "--no-switch")
    assert (held["switched"], held["embedded"], held["collection"]) == (False, 4, "memories")
    ran = at("reindex")
    assert ran.status == 0
    assert re.fullmatch(r"embedded 0 texts: 4 rows from hashed-\S*384\S* to hashed-\S*64\S*\nswitched\n", ran.out), (
        ran.out
    )
    assert "kept word for word" in at.texts()
    assert at.ask("search", "cat", "--user-id", "ana")["results"][0]["memory"] == "User has a cat called Miso"
    assert at.ask("doctor")["healthy"]
    again = at("reindex")
    assert (again.status, again.out.startswith("nothing to do")) == (0, True)


def test_reindex_of_nothing_is_a_usage_error(tmp_path: Path) -> None:
    ran = folder(tmp_path / "empty")("reindex")
    assert ran.status == 2
    assert "nothing to embed" in ran.err


def test_copy_takes_a_folder_or_a_file(at: Folder, tmp_path: Path) -> None:
    other = folder(tmp_path / "other")
    report = at.ask("copy", str(other.path))
    assert (report["rows"], report["copied"], report["kept"]) == (4, 4, 0)
    assert other.texts() == at.texts()
    assert other.ask("doctor")["healthy"]
    file = tmp_path / "third.toml"
    file.write_text(f'path = "{tmp_path / "third"}"\n{SHORT}', encoding="utf-8")
    ran = at("copy", str(file))
    assert ran.status == 0
    assert ran.out == "copied 4 rows; all 4 were read back\n"
    assert "4 texts were embedded anew" in ran.err


def test_copy_onto_itself_or_to_nowhere_is_a_usage_error(at: Folder, tmp_path: Path) -> None:
    ran = at("copy", str(at.path))
    assert ran.status == 2
    assert "same collection" in ran.err
    ran = at("copy", str(tmp_path / "absent.toml"))
    assert ran.status == 2
    assert "there is no file" in ran.err
