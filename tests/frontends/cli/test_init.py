"""init: the settings file says what holds, and changes nothing until it is changed."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from perdure.engine.config.config import MemoryConfig, read_config, read_file
from perdure.frontends.cli.settings_file import settings_text
from perdure.frontends.server.settings import ServerSettings
from tests.frontends.cli.runs import perdure


def test_the_file_as_it_is_written_changes_nothing(tmp_path: Path) -> None:
    ran = perdure("init", "--path", str(tmp_path / "new" / "memory"), "--json")
    assert ran.status == 0
    assert ran.json["file"] == str(tmp_path / "new" / "memory" / "perdure.toml")
    assert ran.json["embedder"] == "minilm"
    assert read_file(ran.json["file"]) == read_config({})


def test_every_setting_is_in_it_with_its_default(tmp_path: Path) -> None:
    text = settings_text(tmp_path)
    named = set(re.findall(r"^# (\w+) (?:=|is)", text, re.MULTILINE)) | set(
        re.findall(r"^(?:# )?\[(\w+)", text, re.MULTILINE)
    )
    assert set(MemoryConfig.model_fields) <= named
    assert {
        "busy_timeout",
        "threads",
        "collection_name",
        "fact_extraction",
        "four_eyes",
        "PUBLIC",
        "port",
        "jwks_url",
    } <= named


def test_with_every_default_uncommented_it_still_says_the_same(tmp_path: Path) -> None:
    text = settings_text(tmp_path)
    loud = re.sub(r"^# (\w+ = (?!\"\.\.\.\").*)$", r"\1", text, flags=re.MULTILINE)
    assert tomllib.loads(loud)["embedder"] == {
        "provider": "minilm",
        "config": {"threads": 1, "precision": "fp32"},
    }
    file = tmp_path / "perdure.toml"
    file.write_text(loud, encoding="utf-8")
    config = read_file(file)
    quiet = read_config({"path": tmp_path})
    assert ServerSettings(**config.server) == ServerSettings()
    sections = {"embedder", "vector_store", "history"}
    assert config.model_dump(exclude={*sections, "server"}) == quiet.model_dump(exclude={*sections, "server"})
    for section in sections:
        assert getattr(config, section).provider == getattr(quiet, section).provider
    assert config.history.config == {"busy_timeout": 10.0}
    perdure_ran = perdure("add", "it works", "--no-infer", "--user-id", "ana", "--path", str(tmp_path))
    assert perdure_ran.status == 0, perdure_ran.err
    assert (tmp_path / "history.db").exists()


def test_a_file_that_exists_is_kept(tmp_path: Path) -> None:
    (tmp_path / "perdure.toml").write_text("# mine\n")
    ran = perdure("init", "--path", str(tmp_path))
    assert ran.status == 1
    assert "--force" in ran.err
    assert (tmp_path / "perdure.toml").read_text() == "# mine\n"
    assert perdure("init", "--path", str(tmp_path), "--force").status == 0
    assert "[embedder]" in (tmp_path / "perdure.toml").read_text()


@pytest.mark.parametrize("folder", ["file/below", "file"])
def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("")
    ran = perdure("init", "--path", str(tmp_path / folder))
    assert ran.status == 1
    assert "cannot be written" in ran.err


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    nowhere = json.dumps(str(tmp_path / "nowhere"))
    (tmp_path / "perdure.toml").write_text(f"[embedder.config]\npath = {nowhere}\n")
    ran = perdure("init", "--path", str(tmp_path), "--force", "--json")
    assert ran.json["missing"] is None
    (tmp_path / "perdure.toml").write_text('[embedder]\nprovider = "hashed"\n')
    ran = perdure("init", "--path", str(tmp_path), "--download")
    assert ran.status == 0
    assert "nothing to download" in ran.err
    assert (tmp_path / "perdure.toml").read_text() == '[embedder]\nprovider = "hashed"\n'
