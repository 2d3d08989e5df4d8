"""The dialogues for judging a curator: the rule for keywords, what a turn holds, and that the files keep their word."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks import FOLDER, load

talk_data = load("talk_data")
says, says_any = talk_data.says, talk_data.says_any

FILES = {name: FOLDER / "data" / "talk" / f"{name}.jsonl" for name in ("train", "held")}


def fact(*keywords: str) -> dict[str, Any]:
    return {"text": "", "keywords": list(keywords)}


# ---------------------------------------------------------------------- keywords
@pytest.mark.parametrize(
    ("text", "keywords"),
    [
        ("Ana keeps bees in Porto", ("bees", "porto")),
        ("Ana keeps bees in Porto", ("hens|bees",)),
        ("Ana keeps bees in Porto", (" hens | bees ",)),
        ("Ana's beekeeping course", ("beekeep",)),
        ("Jürgen wohnt in KÖLN", ("jurgen", "Köln")),
        ("the rent is 1,250 euros", ("1,250",)),
        ("she drives a Volvo V70", ("70",)),
        ("it isn’t hers", ("isn't",)),
        ("open 9\u201317 on   Sundays", ("9-17", "on sundays")),
        ("a cat", ("cat",)),
        ("300 euros", ("300",)),
        ("a note of $300", ("$300",)),
        ("on 07 May", ("7 may",)),
    ],
)
def test_a_text_says_what_holds_all_keywords(text: str, keywords: tuple[str, ...]) -> None:
    assert says(text, fact(*keywords))


@pytest.mark.parametrize(
    ("text", "keywords"),
    [
        ("Ana keeps bees in Porto", ("bees", "lisbon")),
        ("Ana keeps bees in Porto", ("hens|goats",)),
        ("Ana keeps bees in Porto", ()),
        ("Ana keeps bees in Porto", ("|",)),
        ("Ana keeps bees in Porto", ("bees", " ")),
        ("the pineapple", ("apple",)),
        ("a category", ("cat",)),
        ("the rent is 1300 euros", ("300",)),
        ("the rent is 3000 euros", ("300",)),
        ("it weighs 1305 grams", ("5",)),
        ("room 107", ("7",)),
    ],
)
def test_a_text_does_not_say_what_misses_one_or_is_part_of_another_word(text: str, keywords: tuple[str, ...]) -> None:
    assert not says(text, fact(*keywords))


def test_one_fact_of_several_is_enough() -> None:
    assert says_any("Ana keeps bees", [fact("hens"), fact("bees")])
    assert not says_any("Ana keeps bees", [fact("hens"), fact("bees", "porto")])
    assert not says_any("Ana keeps bees", [])


# ---------------------------------------------------------------------- turns
def read_one(tmp_path: Path, item: dict[str, Any]) -> list[Any]:
    file = tmp_path / "one.jsonl"
    file.write_text(json.dumps(item) + "\n", encoding="utf-8")
    (turns,) = talk_data.read_dialogues(file)
    return list(turns)


def user(text: str, *facts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, "facts": list(facts), **more}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def texts(messages: Any) -> list[str]:
    return [message.content for message in messages]


def test_a_turn_holds_all_that_was_said_before_it_once(tmp_path: Path) -> None:
    bees, tea, hens = fact("bees"), fact("tea"), fact("hens")
    sessions = [
        [user("one", bees, optional=[tea]), assistant("two"), user("three"), user("four"), assistant("five")],
        [user("six", hens), assistant("seven"), user("eight")],
    ]
    turns = read_one(tmp_path, {"id": "x", "dates": ["2026-01-14", "2026-02-01"], "sessions": sessions})
    assert [
        (turn.message.content, turn.before and turn.before.content, texts(turn.context), turn.session) for turn in turns
    ] == [
        ("one", None, [], 0),
        ("three", "two", ["one"], 0),
        ("four", None, ["one", "two", "three"], 0),
        # The last word of another session is no question that this message answers.
        ("six", None, ["one", "two", "three", "four", "five"], 1),
        ("eight", "seven", ["one", "two", "three", "four", "five", "six"], 1),
    ]
    assert [turn.gold for turn in turns] == [(bees, tea), (), (), (hens,), ()]
    assert all(turn.known == (bees, tea, hens) for turn in turns)
    assert not any(turn.is_item for turn in turns)
    assert [turn.message.timestamp.isoformat() for turn in turns] == [
        "2026-01-14T10:00:00+00:00",
        "2026-01-14T10:04:00+00:00",
        "2026-01-14T10:06:00+00:00",
        "2026-02-01T10:00:00+00:00",
        "2026-02-01T10:04:00+00:00",
    ]


def test_the_facts_of_a_short_item_are_of_its_last_message(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "one"}, assistant("two"), {"role": "user", "content": "three"}]
    item = {"id": "x", "messages": messages, "facts": [fact("bees")], "optional": [fact("tea")]}
    first, last = read_one(tmp_path, item)
    assert (first.gold, last.gold) == ((), (fact("bees"), fact("tea")))
    assert first.known == last.known == last.gold
    assert first.is_item and last.is_item
    assert (last.before.content, texts(last.context)) == ("two", ["one"])


def test_dates_and_sessions_that_do_not_match_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="zip"):
        read_one(tmp_path, {"id": "x", "dates": ["2026-01-14"], "sessions": [[user("one")], [user("two")]]})


# ---------------------------------------------------------------------- the files
def problems(item: dict[str, Any]) -> list[str]:
    """What is wrong with a dialogue, in words that tell none of its text: the held ones must stay unread."""
    found = []
    if item["dates"] != sorted(item["dates"]) or len(item["dates"]) != len(item["sessions"]):
        found.append("dates")
    known: set[str] = set()
    retired: set[str] = set()
    golds: list[str] = []
    for session in item["sessions"]:
        for message in session:
            if not message["content"].strip():
                found.append("empty message")
            if message["role"] == "assistant":
                if message.keys() != {"role", "content"}:
                    found.append("facts of an assistant")
                continue
            if not set(message["retires"]) <= known - retired:
                found.append("retires what no earlier message told, or twice")
            retired.update(message["retires"])
            facts = [*message["facts"], *message["optional"]]
            golds += [each["text"] for each in facts]
            found += [f"fact {each}" for each in map(_problem, facts) if each]
            tags = [each["tag"] for each in facts if "tag" in each]
            if len(set(tags)) < len(tags) or known & set(tags):
                found.append("a tag of two facts")
            known.update(tags)
    for probe in item["probes"]:
        if not (probe["must_retrieve"] or probe["must_not"]):
            found.append("a probe that nothing can fail")
        if not all(any(says(text, fact(keyword)) for text in golds) for keyword in probe["must_retrieve"]):
            found.append("a probe of what no fact says")
    return found


def _problem(each: dict[str, Any]) -> str:
    if not each["keywords"] or not all(keyword.strip(" |") for keyword in each["keywords"]):
        return "without keywords"
    return "" if says(each["text"], each) else "without its own keywords"


def items(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in FILES[name].read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("name", FILES)
def test_dialogues_agree_with_themselves(name: str) -> None:
    found = items(name)
    assert len({item["id"] for item in found}) == len(found) == 40
    assert {item["id"]: problems(item) for item in found if problems(item)} == {}


@pytest.mark.parametrize("name", FILES)
def test_every_fact_is_read_with_the_message_that_tells_it(name: str) -> None:
    dialogues = list(talk_data.read_dialogues(FILES[name]))
    for item, turns in zip(items(name), dialogues, strict=True):
        said = [each for session in item["sessions"] for each in session]
        users = [each for each in said if each["role"] == "user"]
        assert Counter(turn.message.content for turn in turns) == Counter(each["content"] for each in users)
        assert [list(turn.gold) for turn in turns] == [[*each["facts"], *each["optional"]] for each in users]
        assert turns[-1].known == tuple(each for turn in turns for each in turn.gold)
        for turn in turns:
            before = [] if turn.before is None else [turn.before.content]
            heard = texts(turn.context) + before
            assert heard == [each["content"] for each in said[: len(heard)]]
            assert said[len(heard)]["content"] == turn.message.content


def test_no_message_is_in_both_files() -> None:
    """An answer as short as "OK." may be."""
    train, held = (
        {
            " ".join(message["content"].casefold().split())
            for item in items(name)
            for session in item["sessions"]
            for message in session
            if message["role"] == "user" or len(message["content"]) > 20
        }
        for name in FILES
    )
    assert len(train) > 600 and len(held) > 600
    assert len(train & held) == 0  # not the messages themselves: nobody reads the held ones


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"retires": ["hens"]}, "retires what no earlier message told, or twice"),
        ({"retires": ["bees", "bees"], "facts": [fact("|")]}, "fact without keywords"),
        ({"facts": [{"text": "Ana has hens", "keywords": ["bees"]}]}, "fact without its own keywords"),
        ({"facts": [{"text": "bees", "keywords": ["bees"], "tag": "bees"}]}, "a tag of two facts"),
        ({"content": " "}, "empty message"),
    ],
)
def test_a_dialogue_that_contradicts_itself_is_found(change: dict[str, Any], problem: str) -> None:
    told = {"text": "Ana keeps bees", "keywords": ["bees"], "tag": "bees"}
    last = {**user("It is over.", optional=[], retires=["bees"]), **change}
    probe = {"query": "?", "must_retrieve": ["bees"], "must_not": [], "kind": "recall"}
    sessions = [[user("I keep bees", told, optional=[], retires=[]), last]]
    item = {"id": "x", "dates": ["2026-01-14"], "sessions": sessions, "probes": [probe]}
    assert problems(item) == [problem]
    assert problems({**item, "sessions": [[sessions[0][0]]]}) == []
    silent = {**probe, "must_retrieve": []}
    assert problems({**item, "sessions": [[sessions[0][0]]], "probes": [silent]}) == ["a probe that nothing can fail"]
