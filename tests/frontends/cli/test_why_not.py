"""perdure why-not: a sentence for people, a record for programs, and a status that tells usage from absence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frontends.cli.runs import Folder, folder, perdure

NOBODY = "7b0f6d3e-6f0f-4d3e-9a55-0a2b6f1f6f10"


@pytest.fixture
def at(tmp_path: Path) -> Folder:
    return folder(tmp_path / "memory")


def test_it_says_the_reason_and_a_sentence(at: Folder) -> None:
    id = at.said("green tea")
    ran = at("why-not", id, "tea", "--user-id", "ana")
    assert (ran.status, ran.out, ran.err) == (0, "returned: it comes at rank 1\n", "")
    at.said("tea")
    ran = at("why-not", id, "tea", "--user", "ana", "--limit", "1")
    assert ran.status == 0
    assert ran.out.startswith("limit: it ranks 2 and 1 were asked for; the last of them scores ")


def test_json_is_the_whole_record(at: Folder) -> None:
    id = at.said("green tea")
    told = at.ask("why-not", id, "tea", "--user-id", "ana")
    assert (told["reason"], told["rank"], told["of"]) == ("returned", 1, 1)
    assert told["explanation"]["preset"] == "best"
    assert at.ask("why-not", id, "tea", "--user-id", "ana", "--preset", "plain")["explanation"]["preset"] == "plain"
    told = at.ask("why-not", id, "tea", "--user-id", "ana", "--as-of", "2020-01-01")
    assert (told["reason"], set(told)) == ("not_told_yet", {"reason", "sentence"})


def test_what_does_not_come_is_told_and_no_failure(at: Folder) -> None:
    id = at.said("green tea")
    at("delete", id)
    assert at.ask("why-not", id, "tea", "--user-id", "ana")["reason"] == "deleted"
    assert at.ask("why-not", NOBODY, "tea", "--user-id", "ana")["reason"] == "unknown"
    ours = at("why-not", NOBODY, "tea", "--user-id", "ana")
    theirs = at("why-not", at.said("green tea", user="bo"), "tea", "--user-id", "ana")
    assert (theirs.status, theirs.out, theirs.err) == (ours.status, ours.out, ours.err)


def test_a_question_of_several_words_or_from_standard_input(at: Folder) -> None:
    id = at.said("green tea")
    words = at("why-not", id, "where", "is", "the", "tea", "--user-id", "ana")
    piped = at("why-not", id, "-", "--user-id", "ana", stdin="where is the tea")
    assert words.out == piped.out == "returned: it comes at rank 1\n"


def test_past_and_threshold_are_passed_on(at: Folder) -> None:
    ran = at.ask("add", "old tea", "--no-infer", "--user-id", "ana", "--expires-at", "2020-01-01")
    id = ran["results"][0]["id"]
    assert at.ask("why-not", id, "tea", "--user-id", "ana")["reason"] == "past"
    assert at.ask("why-not", id, "old tea", "--user-id", "ana", "--include-past")["reason"] == "returned"
    told = at.ask("why-not", id, "zebra", "--user-id", "ana", "--include-past", "--threshold", "0.9")
    assert (told["reason"], told["threshold"]) == ("threshold", 0.9)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("why-not", NOBODY, "tea"), "user_id"),
        (("why-not", NOBODY, "--user-id", "ana"), "QUERY"),
        (("why-not", NOBODY, "tea", "--user-id", "ana", "--limit", "0"), "limit must be"),
        (("why-not", NOBODY, "tea", "--user-id", "ana", "--threshold", "7"), "threshold must be"),
        (("why-not", NOBODY, "tea", "--user-id", "ana", "--preset", "bst"), "bst"),
        (("why-not", NOBODY, "tea", "--user-id", "ana", "--as-of", "soon"), "as_of must be"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(at: Folder, arguments: tuple[str, ...], words: str) -> None:
    ran = at(*arguments)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("perdure: ") and ran.err.count("\n") == 1
    assert words in ran.err


def test_what_is_no_id_is_status_3(at: Folder) -> None:
    ran = at("why-not", "no id", "tea", "--user-id", "ana")
    assert (ran.status, ran.out) == (3, "")
    assert ran.err.startswith("perdure: there is no ") and "no id" in ran.err


def test_the_help_has_an_example() -> None:
    ran = perdure("why-not", "--help")
    assert ran.status == 0 and "Example: perdure why-not" in " ".join(ran.out.split())
