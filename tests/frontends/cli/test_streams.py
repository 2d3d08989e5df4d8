"""The command line: what stands on which stream, and which folder and settings a command works on."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.frontends.cli.runs import PROGRAM, Folder, folder, perdure


@pytest.fixture
def at(tmp_path: Path) -> Folder:
    return folder(tmp_path / "memory")


# ------------------------------------------------------------------ what stands on which stream


def test_people_get_a_line_for_each_result_and_the_rest_on_standard_error(tmp_path: Path) -> None:
    at = folder(tmp_path / "memory", process=True)
    ran = at("add", "I live in Lisbon.", "--user-id", "ana")
    event, memory, _, id = ran.out.rstrip("\n").split("\t")
    assert (event, memory, ran.err) == ("ADD", "User lives in Lisbon", "")
    assert at("list", "--user-id", "ana").out.rstrip("\n").split("\t")[::2] == ["User lives in Lisbon", id]
    assert at("search", "lives in Lisbon", "--user-id", "ana").out.rstrip("\n").endswith(id)
    assert f"id:               {id}" in at("get", id).out
    assert "ADD\tUser lives in Lisbon" in at("history", id).out
    ran = at("add", "hello!", "--user-id", "ana")
    assert (ran.status, ran.out) == (0, "")
    assert "nothing in it" in ran.err
    ran = at("search", "x", "--user-id", "nobody")
    assert (ran.status, ran.out, ran.err) == (0, "", "perdure: nothing was found\n")


def test_under_json_warnings_stand_on_standard_error(tmp_path: Path) -> None:
    at = folder(tmp_path / "m", process=True)
    nowhere = json.dumps(str(tmp_path / "nowhere"))
    (at.path / "perdure.toml").write_text(f"[embedder.config]\npath = {nowhere}\n", encoding="utf-8")
    ran = at("add", "I live in Lisbon.", "--user-id", "ana", "--json")
    assert ran.status == 0
    assert ran.json["results"][0]["memory"] == "User lives in Lisbon"
    assert "searched by their words alone" in ran.err
    assert at.ask("search", "Lisbon", "--user-id", "ana")["results"][0]["similarity"] is None


def test_a_reader_that_leaves_is_no_noise(at: Folder) -> None:
    for n in range(3):
        at.said(f"note {n} " + "x" * 50_000)
    command = " ".join(
        [*(f"'{part}'" for part in PROGRAM), "list", "--json", "--user-id", "ana", "--path", str(at.path)]
    )
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command} | head -c 10"], capture_output=True, timeout=60)
    assert done.stderr == b""
    assert len(done.stdout) == 10


def test_control_c_is_130(tmp_path: Path) -> None:
    at = folder(tmp_path / "m")
    process = subprocess.Popen(
        [*PROGRAM, "import", "-", "--path", str(at.path)], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(b'{"memory": "x", "user_id": "ana"}\n')
    process.stdin.flush()
    deadline = time.monotonic() + 30
    while not (at.path / "history.db").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(2)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert err.startswith(b"perdure: interrupted") and b"import" in err and b"Traceback" not in err, err


# ------------------------------------------------------------------ folders and settings


def test_the_folder_may_stand_before_the_command_or_in_the_environment(tmp_path: Path) -> None:
    at = folder(tmp_path / "a")
    other = folder(tmp_path / "b")
    at.said("in a")
    other.said("in b")
    env = {**os.environ, "PERDURE_PATH": str(other.path)}
    listed = ["list", "--user-id", "ana"]
    assert "in a" in perdure("--path", str(at.path), *listed).out
    assert "in b" in perdure(*listed, env=env).out
    assert "in a" in perdure("--path", str(at.path), *listed, env=env).out
    assert "in a" in perdure(*listed, "--path", str(at.path), env=env).out


def test_without_a_path_it_is_the_home_folder(tmp_path: Path) -> None:
    home = folder(tmp_path / ".memory")
    env = {**os.environ, "HOME": str(tmp_path)}
    ran = perdure("add", "at home", "--no-infer", "--user-id", "ana", env=env)
    assert ran.status == 0
    assert home.texts() == ["at home"]


def test_the_file_may_place_the_memory_elsewhere(tmp_path: Path) -> None:
    at = folder(tmp_path / "here")
    elsewhere = tmp_path / "elsewhere"
    (at.path / "perdure.toml").write_text(f"path = {json.dumps(str(elsewhere))}\n[embedder]\nprovider = 'hashed'\n")
    at.said("over there")
    assert (elsewhere / "memories.db").is_file()
    assert not (at.path / "memories.db").exists()


def test_a_wrong_setting_is_named(tmp_path: Path) -> None:
    at = folder(tmp_path / "m", process=True)
    (at.path / "perdure.toml").write_text("[embeder]\n")
    ran = at("list", "--user-id", "ana")
    assert ran.status == 2
    assert "embedder" in ran.err
    assert ran.err.count("\n") == 1
    (at.path / "perdure.toml").write_text("not toml")
    assert at("list", "--user-id", "ana").status == 2


def test_a_store_that_cannot_be_opened_is_status_1(tmp_path: Path) -> None:
    at = folder(tmp_path / "m", process=True)
    (at.path / "memories.db").write_bytes(b"this is no database, but it is long enough to be taken for one" * 20)
    ran = at("list", "--user-id", "ana")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("perdure: ")


def test_what_is_remembered_steers_no_terminal(at: Folder) -> None:
    at("add", "My cat is called \x1b[31mTom\x1b[0m \x9b2J", "--user-id", "ana")
    for command in (["list"], ["search", "cat"]):
        out = at(*command, "--user-id", "ana").out
        assert "Tom" in out and not any(mark in out for mark in "\x1b\x9b"), command
    assert at("list", "--user-id", "bo", "--quarantined").err == "perdure: nothing is quarantined\n"
