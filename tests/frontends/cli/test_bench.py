"""The command line: bench."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perdure.domain.event import SearchResult
from perdure.domain.memory import MemoryItem, text_hash
from perdure.domain.scope import Scope
from perdure.engine.read.search import ReadPath
from perdure.engine.requests import Query
from perdure.frontends.cli.main import main
from tests.frontends.cli.runs import HASHED, Folder, folder

MOMENT = "2026-01-01T00:00:00.000000Z"
ELSEWHERE = MemoryItem(
    id="7b0f6d3e-6f0f-4d3e-9a55-0a2b6f1f6f10",
    memory="User lives in Oslo",
    hash=text_hash("User lives in Oslo"),
    scope=Scope(user_id="zoe"),
    created_at=MOMENT,
    updated_at=MOMENT,
    told_at=MOMENT,
)


@pytest.fixture
def at(tmp_path: Path) -> Folder:
    found = folder(tmp_path / "memory")
    found.ask("add", "I live in Lisbon. I have a cat called Miso.", "--user-id", "ana")
    found.ask("add", "I work at Acme.", "--user-id", "ben")
    return found


def test_a_report_for_people(at: Folder) -> None:
    ran = at("bench")
    assert (ran.status, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0] == (
        "told and found in 10 results: 100.0% (95 % interval 20.7% to 100.0%); in the first: 100.0% (20.7% to 100.0%)"
    )
    assert [line.split("\t")[0] for line in lines[1:5]] == ["told", "slots", "messages", "all"]
    assert [line.split("\t")[1:3] for line in lines[1:3]] == [["1", "100.0%"], ["2", "100.0%"]]
    assert "3 memories in 2 scopes, preset best" in lines
    assert "results from another scope: 0" in lines
    assert "pairs of memories that say the same: 0" in lines


def test_a_report_as_json_takes_the_options(at: Folder) -> None:
    report = at.ask("bench", "--user-id", "ana", "--probes", "1", "--limit", "3", "--preset", "plain")
    assert (report["memories"], report["limit"], report["preset"]) == (2, 3, "plain")
    assert report["all"]["probes"] == 1
    assert at.ask("bench", "--user", "ana", "--agent", "bot")["memories"] == 0


def test_the_first_missed_probes_are_named(
    at: Folder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "My birthday is 3 May. I drive a Fiat. I bank with Moneta. I wake up at 6. I come from Spain."
    at.ask("add", said, "--user-id", "cid")

    async def blind(_: ReadPath, query: Query) -> SearchResult:
        return SearchResult([])

    monkeypatch.setattr(ReadPath, "find", blind)
    asked = ["bench", "--user-id", "cid", "--path", str(at.path)]
    assert main([*asked, "--json"]) == 0
    missed = json.loads(capsys.readouterr().out)["missed"]
    assert [miss["kind"] for miss in missed].count("slots") == 5
    assert main(asked) == 0
    named = [f"perdure: missed: {miss['question']} ({', '.join(miss['ids'])})" for miss in missed[:5]]
    assert capsys.readouterr().err.splitlines() == [*named, "perdure: and 1 more: --json has them all"]


def test_nothing_stored_is_said_with_status_0(tmp_path: Path) -> None:
    empty = folder(tmp_path / "empty")
    ran = empty("bench")
    assert (ran.status, ran.out, ran.err) == (0, "", "perdure: there are no memories to ask for\n")
    report = empty.ask("bench")
    assert (report["memories"], report["all"]["probes"]) == (0, 0)


def test_what_cannot_be_asked_for_is_said(tmp_path: Path) -> None:
    at = folder(tmp_path / "memory")
    at.said("tea")
    ran = at("bench")
    assert ran.status == 0
    assert "none of them could be asked for" in ran.out
    assert ran.out.startswith("nothing that was told could be asked for: ")


# ------------------------------------------------------------------ --fail-under


def with_episodes(tmp_path: Path, episodes: str) -> Folder:
    at = folder(tmp_path / "memory")
    (at.path / "perdure.toml").write_text(f'episodes = "{episodes}"\n{HASHED}', encoding="utf-8")
    return at


def test_a_share_that_is_reached_is_status_0(at: Folder) -> None:
    assert at("bench", "--fail-under", "1").status == 0


def test_a_share_that_is_not_reached_is_status_1(tmp_path: Path) -> None:
    at = with_episodes(tmp_path, "keep")
    at.ask("add", "Error 4711 while reading block after block of tape", "--user-id", "ana")
    assert at("bench").status == 0
    ran = at("bench", "--fail-under", "0.5", "--json")
    assert ran.status == 1
    assert ran.err == "perdure: --fail-under 0.5: only 0.000 of what was told was found\n"
    assert ran.json["kinds"]["told"]["interval_at_limit"][0] == 0.0
    assert [miss["value"] for miss in ran.json["missed"] if miss["kind"] == "told"] == ["4711"]
    shown = at("bench")
    assert "missed: Error reading block tape, told: 4711 (" in shown.err
    assert at("bench", "--fail-under", "0").status == 0


@pytest.mark.parametrize(
    ("episodes", "said", "why"),
    [
        ("off", "I live in Lisbon.", "no messages of users are stored"),
        ("words", "I like tea.", "no stored message tells a number, a date or a name beside other words"),
    ],
)
def test_what_was_not_measured_does_not_pass(tmp_path: Path, episodes: str, said: str, why: str) -> None:
    at = with_episodes(tmp_path, episodes)
    at.ask("add", said, "--user-id", "ana")
    ran = at("bench", "--fail-under", "0.1")
    assert ran.status == 1
    assert ran.err.endswith(f"--fail-under 0.1: nothing that was told could be asked for ({why})\n")


def test_an_empty_store_does_not_pass(tmp_path: Path) -> None:
    ran = folder(tmp_path / "empty")("bench", "--fail-under", "0")
    assert ran.status == 1
    assert "no messages of users are stored" in ran.err


@pytest.mark.parametrize("share", ["1.01", "-0.1", "nan"])
def test_a_share_out_of_range_is_refused(at: Folder, share: str) -> None:
    ran = at("bench", f"--fail-under={share}")
    assert (ran.status, ran.out) == (2, "")
    assert f"fail_under must be a number from 0 to 1, not {share}" in ran.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("--probes", "0"), "probes must be"), (("--preset", "worst"), "unknown preset"), (("--limit", "x"), "--limit")],
)
def test_wrong_usage_is_status_2(at: Folder, arguments: tuple[str, ...], words: str) -> None:
    ran = at("bench", *arguments)
    assert (ran.status, ran.out) == (2, "")
    assert words in ran.err


def test_a_wall_that_leaks_is_status_1(
    at: Folder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def leaking(_: ReadPath, query: Query) -> SearchResult:
        return SearchResult([ELSEWHERE])

    monkeypatch.setattr(ReadPath, "find", leaking)
    assert main(["bench", "--user-id", "ben", "--path", str(at.path)]) == 1
    assert "results from another scope: 2" in capsys.readouterr().out
