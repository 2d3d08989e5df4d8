"""One memory as a file: nothing is lost that perdure wrote, and nothing breaks that people write."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from perdure.backends.markdown.front_matter import NoFrontMatter, split
from perdure.backends.markdown.layout import place_of
from perdure.backends.markdown.memory_file import BOOKKEEPING, read, render, same
from perdure.domain.memory import MemoryItem, Slots, Tags, text_hash
from perdure.domain.scope import Scope
from tests.contracts.strategies import payloads

pytestmark = pytest.mark.covers("K5", "K15", "K16")

ID = "0b8f3f0c-8d64-4f0e-9b1a-0a2b3c4d5e6f"
DAY = "2025-11-20T14:06:01.123456+00:00"
LATER = "2026-01-02T00:00:00.000000+00:00"
PLACE = f"work/facts/2025__{ID}.md"

texts = st.text(min_size=1).filter(lambda text: bool(text.strip()))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
names = st.one_of(
    st.text(max_size=8), st.sampled_from(["topic", "tags", "on", "no", "id", "role", "text", "payload", "a b", "slots"])
)


def item(text: str = "User likes tea", **fields: Any) -> MemoryItem:
    made = {"created_at": DAY, "updated_at": DAY, "told_at": DAY, "valid_from": DAY, "hash": text_hash(text), **fields}
    return MemoryItem(**{"id": ID, "memory": text, "scope": Scope(run_id="work"), **made})


def again(payload: dict[str, Any], id: str = ID) -> dict[str, Any]:
    return read(render(id, payload), place_of(id, payload), LATER).payload


def by_hand(*lines: str, body: str = "User likes tea") -> str:
    return "\n".join(["---", *lines, "---", body, ""])


@pytest.mark.covers("K15", "K16")
def test_the_file_of_a_fact() -> None:
    assert render(ID, item("  User likes tea\n").with_(memory="User likes tea").to_payload()) == (
        f'---\nid: {ID}\nconversation_id: work\nrole: memory\ncreated_at: "{DAY}"\n'
        f'hash: "{text_hash("  User likes tea" + chr(10))}"\n---\nUser likes tea\n'
    )
    told = yaml.safe_load(render(ID, item().to_payload()).split("---")[1])
    assert told == {"id": ID, "conversation_id": "work", "role": "memory", "created_at": DAY}


@pytest.mark.covers("K15", "K48")
def test_tombstones_and_summaries_say_what_they_are() -> None:
    tombstone = item(state="version", version_of="old-id", replaced_by="new-id", untold_at=LATER).to_payload()
    told, body, _ = split(render(ID, tombstone))
    assert [*told][:6] == ["id", "version_id", "conversation_id", "role", "created_at", "replaced_by"]
    assert (told["id"], told["version_id"], told["replaced_by"], body) == ("old-id", ID, "new-id", "User likes tea")
    summary = item(kind="summaries", role="summary").to_payload()
    assert list(split(render(ID, summary))[0]) == ["id", "conversation_id", "role", "created_at", "summary_kind"]
    assert again(tombstone) == tombstone
    assert again(summary) == summary


@given(
    texts,
    st.dictionaries(names, json_values, max_size=4),
    st.builds(
        dict,
        importance=st.floats(0, 1),
        speaker=st.none() | st.text(min_size=1),
        sources=st.lists(st.text(), max_size=2).map(tuple),
        access_count=st.integers(0, 5),
        valid_to=st.none() | st.just(LATER),
        valid_from=st.none() | st.just(LATER),
        told_at=st.sampled_from([DAY, LATER]),
        role=st.sampled_from(["memory", "user", "assistant", "summary", "tool"]),
        kind=st.sampled_from(["facts", "messages", "summaries", "insights"]),
        slots=st.none() | st.builds(Slots, st.text(), st.text(), st.text(), st.booleans()),
        tags=st.none() | st.just(Tags(visibility="team", truth_level="WORKING", validation_status="pending")),
        content=st.dictionaries(st.text(max_size=3), json_values, max_size=2),
        unique=st.none() | st.booleans(),
        scope=st.builds(Scope, user_id=st.sampled_from(["a", "true", "1", "x: y"]), run_id=st.none() | st.just("..")),
    ),
)
@example(" spaced \r\n text\ud800\x00\x85\u2028\ufeff ", {"on": 1e300, "topic": None, "memory": 1}, {})
@example("---\nid: other\n---\nbody", {"text": "x"}, {})
def test_an_item_is_read_back_whole(text: str, metadata: dict[str, Any], fields: dict[str, Any]) -> None:
    payload = item(text, metadata=metadata, **fields).to_payload()
    assert again(payload) == payload


@given(st.text(), payloads())
@example("r/1", {"memory": "x ", "a": {"b": [1.5, None, True]}, "payload": {}})
@example("", {"memory": ""})
@example("", {})
def test_any_row_is_read_back_whole(id: str, payload: dict[str, Any]) -> None:
    found = read(render(id, payload), place_of(id, payload), LATER)
    assert (found.id, found.payload) == (id, payload)


@given(st.dictionaries(st.text(max_size=8), json_values, max_size=4), texts)
def test_fields_that_somebody_adds_survive_our_rewriting(extra: dict[str, Any], text: str) -> None:
    head = yaml.safe_dump({"id": ID, "conversation_id": "work", "created_at": DAY} | {"mine": extra})
    first = read(f"---\n{head}---\nUser likes tea\n", PLACE, DAY).payload
    assert first["metadata"]["mine"] == split(f"---\n{head}---\nx\n")[0]["mine"]
    edited = MemoryItem.from_payload(first).with_(memory=text, hash=text_hash(text)).to_payload()
    assert again(edited)["metadata"] == first["metadata"]


def test_plain_metadata_are_fields_of_their_own() -> None:
    told, _, _ = split(render(ID, item(metadata={"mood": "happy", "tags": ["a"], "a b": "x"}).to_payload()))
    assert (told["mood"], told["tags"], told["metadata"]) == ("happy", ["a"], {"a b": "x"})


# ------------------------------------------------------------------ what people write
@pytest.mark.covers("U15")
@pytest.mark.parametrize(
    ("created", "moment"),
    [
        pytest.param(
            "2025-11-20 14:06:01", "2025-11-20T14:06:01.000000+00:00", marks=pytest.mark.covers("U15"), id="naive"
        ),
        pytest.param("2025-11-20", "2025-11-20T00:00:00.000000+00:00", marks=pytest.mark.covers("U15"), id="date"),
        pytest.param(
            "2025-11-20T14:06:01Z", "2025-11-20T14:06:01.000000+00:00", marks=pytest.mark.covers("U15"), id="Z"
        ),
        pytest.param(
            "'2025-11-20T16:06:01+02:00'",
            "2025-11-20T14:06:01.000000+00:00",
            marks=pytest.mark.covers("U15"),
            id="offset",
        ),
    ],
)
def test_times_in_any_form(created: str, moment: str) -> None:
    found = read(by_hand(f"id: {ID}", f"created_at: {created}"), PLACE, LATER)
    assert found.payload["created_at"] == found.payload["told_at"] == moment
    assert not found.undated


@pytest.mark.parametrize("created", ["yesterday", "2026-13-45", "12345678901234567890", "[1]", "true"])
def test_a_time_that_is_none_is_the_files_own(created: str) -> None:
    found = read(by_hand(f"id: {ID}", f"created_at: {created}"), PLACE, LATER)
    assert found.payload["created_at"] == LATER
    assert found.undated
    assert found.notes == ["has a created_at that is no time: the file's own is taken"]


@pytest.mark.covers("K5")
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(by_hand(f"id: {ID}", f"created_at: {DAY}").replace("\n", "\r\n"), id="CRLF"),
        pytest.param("\ufeff" + by_hand(f"id: {ID}", f"created_at: {DAY}"), id="BOM"),
        pytest.param(by_hand(f"id:   {ID}  ", "", "# a comment", f"created_at: {DAY} # noted"), id="comments"),
        pytest.param(by_hand(f"id: '{ID}'", f'"created_at": {DAY}'), id="quotes"),
        pytest.param(by_hand(f"created_at: {DAY}"), id="id-from-name"),
    ],
)
def test_files_in_other_hands(text: str) -> None:
    payload = read(text, PLACE, LATER).payload
    assert payload == item().to_payload()


def test_without_an_id_it_is_told_from_the_place_and_stays_the_same() -> None:
    one = read(by_hand("mood: x"), "work/facts/note.md", LATER)
    assert one.id == read(by_hand("mood: y"), "work/facts/note.md", DAY).id
    assert one.id != read(by_hand("mood: x"), "home/facts/note.md", LATER).id
    assert one.notes == ["has no id: it is told from its name"]
    assert one.payload["run_id"] == "work"


@pytest.mark.covers("A26")
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param("just text", "has no front matter", marks=pytest.mark.covers("A26")),
        pytest.param("", "has no front matter", id="empty"),
        pytest.param("---\nid: x\n", "has front matter without an end", id="open"),
        pytest.param(by_hand("id: [", "x"), "no YAML", id="broken"),
        pytest.param(by_hand("id:\tx: \ty", "\tb: 1"), "no YAML", id="tabs"),
        pytest.param(by_hand("- a", "- b"), "no list of fields", id="list"),
        pytest.param(by_hand("words"), "no list of fields", id="scalar"),
        pytest.param(by_hand("id: x", body="  "), "no text", id="bodyless"),
        pytest.param(by_hand("id: x", "run_id: [1]"), "run_id that is none", id="walls"),
        pytest.param(by_hand("id: x", f"user_id: {'x' * 1025}"), "user_id that is none", id="long"),
        pytest.param(by_hand("a: &a [1,1,1,1,1,1,1,1,1,1]", *(
            f"{name}: &{name} [*{before},*{before},*{before},*{before},*{before},*{before},*{before},*{before}]"
            for before, name in zip("abcdefgh", "bcdefghi", strict=True)
        )), "too large", id="laughs"),
        pytest.param(by_hand("a: " + "[" * 300_000), "front matter", id="deep"),
        pytest.param(by_hand("id: ../../etc"), "id that is no UUID", id="path"),
        pytest.param(by_hand("id: tea"), "id that is no UUID", id="word"),
        pytest.param(by_hand("id: 7"), "id that is no UUID", id="number"),
    ],
)  # fmt: skip
def test_what_is_no_memory_is_told_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(NoFrontMatter, match=sentence):
        read(text, "work/facts/x.md", LATER)


def test_a_file_that_names_no_walls_and_lies_in_no_folder_is_no_memory() -> None:
    with pytest.raises(NoFrontMatter, match="names no conversation"):
        read(by_hand("id: x"), "x.md", LATER)


@pytest.mark.covers("A26")
def test_a_file_that_somebody_moved_to_the_deleted_ones_is_no_memory() -> None:
    with pytest.raises(NoFrontMatter, match="lies among the deleted"):
        read(by_hand(f"id: {ID}"), "work/deleted/facts/x.md", LATER)


def test_doubled_keys_count_last_and_are_told() -> None:
    found = read(by_hand("id: a", f"id: {ID}"), PLACE, LATER)
    assert (found.id, found.notes) == (ID, ["says id twice: the last counts"])


@pytest.mark.parametrize("spelled", [ID.upper(), f"mem_{ID.replace('-', '')}", f"'{{{ID}}}'"])
def test_an_id_counts_in_the_spelling_that_commands_look_for(spelled: str) -> None:
    assert read(by_hand(f"id: {spelled}"), PLACE, LATER).payload["id"] == ID


def test_nonsense_in_a_field_is_passed_over_and_told() -> None:
    found = read(
        by_hand(f"id: {ID}", f"created_at: {DAY}", "importance: high", "sources: x", "version: 1.5", "metadata: no"),
        PLACE,
        LATER,
    )
    assert found.payload == item().to_payload()
    assert len(found.notes) == 4


def test_the_front_matter_wins_over_the_folder() -> None:
    found = read(by_hand(f"id: {ID}", "conversation_id: home"), PLACE, LATER)
    assert found.payload["run_id"] == "home"
    assert read(by_hand(f"id: {ID}", "conversation_id: 2026"), PLACE, LATER).payload["run_id"] == "2026"


def test_an_edited_text_drops_what_was_read_in_it() -> None:
    payload = item("User lives in Oslo ", slots=Slots("user", "home", "oslo")).to_payload()
    written = render(ID, payload)
    edited = read(written.replace("\nUser lives in Oslo\n", "\nUser lives in Rome\n"), place_of(ID, payload), LATER)
    assert edited.payload["memory"] == "User lives in Rome"
    assert edited.payload["hash"] == text_hash("User lives in Rome")
    assert "attribute" not in edited.payload
    assert not same(edited.payload, payload, BOOKKEEPING)


@given(st.text())
@example("---\nid: 1\n---\nx")
def test_no_text_breaks_the_reader(text: str) -> None:
    for each in (text, f"---\n{text}\n---\nbody", by_hand(f"id: {ID}", text)):
        try:
            found = read(each, PLACE, LATER)
        except NoFrontMatter:
            continue
        assert again(found.payload, found.id) == found.payload or "payload" in each
