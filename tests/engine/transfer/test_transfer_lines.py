"""Import of lines that others wrote, and of bad ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perdure.domain.errors import InvalidInputError
from perdure.domain.scope import Scope
from perdure.engine.engine import Engine
from perdure.engine.transfer.transfer import import_archive
from tests.engine.transfer.transfers import ANA, export, load, records, rifts, run, say

# ------------------------------------------------------------------ lines of others


def test_a_fact_is_stored_as_it_is_with_what_it_says_of_itself(tmp_path: Path) -> None:
    id = "7b0f6d3e-6f0f-4d3e-9a55-0a2b6f1f6f10"
    fact = {
        "memory": "User plays the cello", "id": id, "user_id": "ana", "metadata": {"from": "elsewhere"},
        "created_at": "2024-05-06T07:08:09Z", "type": "episodic", "importance": 0.9, "colour": "red",
    }  # fmt: skip
    report = load(tmp_path, [json.dumps(fact), json.dumps(fact)])
    assert report.model_dump()["kinds"] == {"facts": {"new": 1, "skipped": 1}}
    assert report.ignored == ["colour"]
    item = run(tmp_path, lambda engine: engine.read.get(id))
    assert item is not None
    assert (item.memory, item.created_at, item.type) == (fact["memory"], "2024-05-06T07:08:09.000000+00:00", "episodic")
    assert (item.metadata, item.importance, item.scope) == ({"from": "elsewhere"}, 0.9, ANA)
    history = run(tmp_path, lambda engine: engine.read.history(id))
    assert [(record.event, record.actor, record.new_value) for record in history] == [("ADD", "import", fact["memory"])]
    assert rifts(tmp_path) == []


def test_a_fact_without_an_id_is_taken_once_and_not_again_after_its_deletion(tmp_path: Path) -> None:
    lines = ['{"memory": "User plays the cello", "user_id": "ana"}']
    load(tmp_path, lines)
    assert load(tmp_path, lines).skipped == 1

    async def delete(engine: Engine) -> None:
        page = await engine.read.get_all(ANA, limit=9, filters=None, cursor=None, as_of=None, include_past=False)
        await engine.revise.delete(page.results[0].id)

    run(tmp_path, delete)
    assert load(tmp_path, lines).skipped == 1
    assert rifts(tmp_path) == []


def test_a_fact_that_is_known_in_the_same_words_is_not_repeated(tmp_path: Path) -> None:
    run(tmp_path, lambda engine: say(engine, "User plays the cello"))
    report = load(tmp_path, ['{"memory": "User plays the cello", "user_id": "ana"}'])
    assert (report.new, report.skipped) == (0, 1)
    report = load(tmp_path, ['{"memory": "User plays the cello", "user_id": "ben"}'])
    assert (report.new, report.skipped) == (1, 0)


def test_conversations_are_added_once_each(tmp_path: Path) -> None:
    lines = [
        json.dumps({"messages": [{"role": "user", "content": "I live in Lisbon."}], "user_id": "ana",
                    "timestamp": "2025-01-02T10:00:00Z"}),
        json.dumps({"role": "user", "content": "I moved to Porto.", "user_id": "ana",
                    "timestamp": "2025-03-02T10:00:00Z"}),
        json.dumps({"role": "user", "content": "yes", "user_id": "ana"}),
        json.dumps({"role": "user", "content": "yes", "user_id": "ana"}),
    ]  # fmt: skip
    report = load(tmp_path, lines)
    assert report.model_dump()["kinds"] == {"conversations": {"new": 4, "skipped": 0}}
    assert report.events["ADD"] == report.events["UPDATE"] == 1
    again = load(tmp_path, lines)
    assert again.model_dump()["kinds"] == {"conversations": {"new": 0, "skipped": 4}}
    archive = export(tmp_path)
    assert len(records(archive, "episode")) == 4
    assert [row["told_at"] for row in records(archive, "memory") if row["state"] == "live"] == [
        "2025-03-02T10:00:00.000000+00:00"
    ]
    assert rifts(tmp_path) == []


def test_options_fill_in_the_scope_that_a_line_does_not_name(tmp_path: Path) -> None:
    lines = ['{"memory": "User likes tea"}', '{"memory": "User likes rice", "user_id": "ben"}']
    report = run(tmp_path, lambda engine: import_archive(engine, lines, default=Scope(user_id="ana", run_id="r")))
    assert report.refused == 0
    scopes = [(row["user_id"], row["run_id"]) for row in records(export(tmp_path), "memory")]
    assert sorted(scopes) == [("ana", "r"), ("ben", "r")]


# ------------------------------------------------------------------ bad lines

GOOD = '{"memory": "User likes tea", "user_id": "ana"}'
ROW = {
    "record": "memory", "id": "7b0f6d3e-6f0f-4d3e-9a55-0a2b6f1f6f10", "memory": "User likes tea", "hash": "x",
    "created_at": "2024-05-06T07:08:09.000000+00:00", "updated_at": "2024-05-06T07:08:09.000000+00:00",
    "told_at": "2024-05-06T07:08:09.000000+00:00", "user_id": "ana",
}  # fmt: skip
EVENT = {
    "record": "history", "id": "e", "memory_id": "m", "event": "ADD", "timestamp": "2024-05-06T07:08:09.000000+00:00",
}  # fmt: skip


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("not json", "not JSON"),
        ('{"memory": "half', "not JSON"),
        ("[1, 2]", "it is a list, not an object"),
        ('"text"', "it is text"),
        ("{}", "none of"),
        ('{"memory": "User likes tea"}', "At least one of user_id"),
        ('{"memory": "", "user_id": "ana"}', "memory must be text"),
        ('{"memory": 5, "user_id": "ana"}', "memory must be text"),
        ('{"memory": "x", "user_id": 5}', "user_id must be text"),
        ('{"memory": "x", "user_id": "ana", "id": "seven"}', "id must be a UUID"),
        ('{"memory": "x", "user_id": "ana", "created_at": "soon"}', "created_at must be"),
        ('{"memory": "x", "user_id": "ana", "metadata": {"hash": 1}}', "metadata may not set"),
        ('{"memory": "x", "user_id": "ana", "metadata": {"n": NaN}}', "no JSON number"),
        ('{"memory": "x\\ud800", "user_id": "ana"}', "surrogate"),
        ('{"memory": "x\udcff", "user_id": "ana"}', "UTF-8"),
        ('{"messages": "x"}', "At least one of user_id"),
        ('{"messages": [{"role": "emperor", "content": "x"}], "user_id": "ana"}', "role must be one of"),
        ('{"role": "user", "content": "x", "user_id": "ana", "timestamp": "soon"}', "timestamp must be"),
        ('{"messages": null, "user_id": "ana"}', "messages must be text, a message or a list of messages, not nothing"),
        ('{"messages": 5, "user_id": "ana"}', "not a number"),
        ('{"messages": [{"role": "user"}], "user_id": "ana"}', "messages[0] has no content"),
        ('{"memory": null, "user_id": "ana"}', "not nothing"),
        ('{"record": "dream", "user_id": "ana"}', "record must be"),
        (json.dumps({**ROW, "id": None}), "id must be text"),
        (json.dumps({**ROW, "created_at": "2024-05-06"}), "created_at must be written as"),
        (json.dumps({**ROW, "sources": 5}), "sources must be a list of texts, not 5"),
        (json.dumps({**ROW, "importance": "x"}), "importance must be a number"),
        (json.dumps({**ROW, "version": "a"}), "version must be a whole number"),
        (json.dumps({**EVENT, "event": "NONE"}), "event must be"),
        (json.dumps({**EVENT, "timestamp": "2024"}), "timestamp must be"),
        (json.dumps({**EVENT, "new_value": 5}), "new_value must be text"),
        (json.dumps({**EVENT, "before": 5}), "before must be an object, not 5"),
        (json.dumps({**EVENT, "sources": 5}), "sources must be a list of texts, not 5"),
        ('{"record": "episode", "id": "e"}', "add_id must be text"),
        ('{"perdure": "one"}', "number of a format"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_bad_line_is_refused_by_number_and_the_others_are_taken(tmp_path: Path, line: str, reason: str) -> None:
    report = load(tmp_path, [GOOD, "", line, GOOD.replace("tea", "rice")])
    assert report.new == 2
    assert [refusal.line for refusal in report.refusals] == [3]
    assert reason in report.refusals[0].reason


def test_a_newer_archive_is_refused_whole(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="upgrade perdure"):
        load(tmp_path, ['{"perdure": 2}', GOOD])
    assert export(tmp_path)[1:] == []


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    assert load(tmp_path, [f"\ufeff{GOOD}"]).new == 1
