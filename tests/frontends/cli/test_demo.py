"""demo: the story that comes with perdure is lived through, told to people and as JSON."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from perdure.domain.errors import InvalidInputError
from perdure.frontends.cli.commands.demo import Asked, Said, find_story, read_story
from perdure.pipeline.retrieval.rescoring import ABOUT_EQUAL
from tests.frontends.cli.runs import folder, perdure

STORY = Path(__file__).parents[3] / "examples" / "household.jsonl"


def lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in STORY.read_text(encoding="utf-8").splitlines()]


def test_the_story_is_a_story() -> None:
    sessions = read_story(STORY.read_text(encoding="utf-8"))
    assert find_story() == STORY
    assert len(sessions) >= 6
    assert sum(isinstance(line, Said) for session in sessions for line in session.lines) >= 60
    assert all(isinstance(session.lines[-1], Asked) for session in sessions)
    assert {line.get("role") for line in lines()} == {"user", "assistant", None}
    assert len({line["name"] for line in lines() if "name" in line}) >= 3
    times = [datetime.fromisoformat(line["timestamp"]) for line in lines()]
    assert times == sorted(times)
    assert {moment.year for moment in times} == {2025, 2026}


def test_it_is_told_in_a_hundred_columns_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    ran = perdure("demo")
    assert (ran.status, ran.err) == (0, "")
    told = ran.out.splitlines()
    assert max(map(len, told)) <= 100
    for words in (
        "kept",
        "corrected",
        "forgotten",
        "→",
        "? Where does Mara work?",
        "ms per message",
        "ms per question",
    ):
        assert words in ran.out
    assert list(tmp_path.iterdir()) == []


def test_as_json_it_adds_up_and_stays_where_it_is_told(tmp_path: Path) -> None:
    at = folder(tmp_path / "m")
    told = at.ask("demo")
    assert set(told) == {"sessions", "summary"}
    figures = told["summary"]
    assert figures["messages"] == sum(session["messages"] for session in told["sessions"])
    assert figures["messages"] == sum("content" in line for line in lines())
    assert figures["questions"] == sum("ask" in line for line in lines())
    for kind in ("kept", "corrected", "forgotten"):
        assert figures[kind] == sum(len(session[kind]) for session in told["sessions"]) > 0
    assert figures["ms_per_message"] > 0
    for session in told["sessions"]:
        for question in session["questions"]:
            assert question["ms"] > 0
            scores = [result["score"] for result in question["results"]]
            for place, score in enumerate(scores):  # best first; a newer one may stand before its older equal
                assert all(score >= ABOUT_EQUAL * behind for behind in scores[place:])
    assert at.texts("household")
    assert at("doctor").status == 0


def test_the_questions_are_answered_by_what_holds_at_the_time() -> None:
    ran = perdure("demo", "--json")
    assert ran.status == 0, ran.err
    asked = [question for session in ran.json["sessions"] for question in session["questions"]]
    best = {question["ask"]: question["results"][0]["memory"] for question in asked}
    for question, words in {
        "What is Jonas allergic to?": "shellfish",
        "When is the cello lesson?": "Wednesdays at 5 pm",
        "Where does Mara work?": "health centre",
        "What is Tomas's phone number?": "936 555 177",
        "Where does Tomas live?": "Lisbon",
        "What instrument does Ilse play?": "drums",
        "What is our address?": "Rua do Almada 240",
    }.items():
        assert words in best[question]
    of_the_door = next(each for each in asked if each["ask"] == "What is the door code?")
    assert not any("4471" in result["memory"] for result in of_the_door["results"])
    assert "The door code of the building is 4471" in [
        text for each in ran.json["sessions"] for text in each["forgotten"]
    ]


def test_a_story_of_ones_own(tmp_path: Path) -> None:
    story = "\n".join(
        map(
            json.dumps,
            [
                {"role": "user", "content": "I live in Lisbon.", "timestamp": "2025-01-01T10:00:00Z", "user_id": "ana"},
                {"ask": "lives in Lisbon", "user_id": "ana", "timestamp": "2025-01-01T10:01:00Z"},
                {"role": "user", "content": "I moved to Porto.", "timestamp": "2025-02-01T10:00:00Z", "user_id": "ana"},
            ],
        )
    )
    at = folder(tmp_path / "m")
    first, second = at.ask("demo", "-", stdin=story)["sessions"]
    assert first["kept"] == ["User lives in Lisbon"]
    assert first["questions"][0]["results"][0]["memory"] == "User lives in Lisbon"
    assert (second["kept"], second["corrected"]) == (
        [],
        [{"old": "User lives in Lisbon", "new": "User moved to Porto"}],
    )
    assert second["date"] == "2025-02-01"


def test_the_demo_does_not_touch_the_memory_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_PATH", str(tmp_path / "mine"))
    assert perdure("demo", "-", stdin='{"role": "user", "content": "I live in Lisbon."}').status == 0
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "no lines"), ("nonsense", "line 1 is not JSON"), ("[]", "line 1 is not a JSON object"),
     ('{"ask": 5}', "line 1 has neither"), ('{"ask": "x", "timestamp": "soon"}', "line 1: timestamp must be")],
)  # fmt: skip
def test_a_story_that_is_none_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        read_story(text)
    ran = perdure("demo", "-", stdin=text)
    assert (ran.status, ran.out) == (2, "")
    assert words in ran.err
