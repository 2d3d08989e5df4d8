"""Reading a model's answer: what is accepted, what is given up, and that nothing else ever happens."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.errors import LLMError
from perdure.pipeline.curation.llm.parsing import Operation, UnreadableAnswer, find_json, parse_facts, parse_operations

pytestmark = pytest.mark.covers("K56", "U10", "U26")

TEA, JAM = "User likes tea", "User's cat is named Jam"


def texts(answer: str) -> list[str]:
    return [fact.text for fact in parse_facts(answer)]


LIST = '["User likes tea", "User\'s cat is named Jam"]'
ACCEPTED = {  # @ stands for LIST
    "bare list": "@",
    "object with facts": '{"facts": @}',
    "objects with text": '[{"text": "User likes tea"}, {"text": "User\'s cat is named Jam"}]',
    "objects with fact": '[{"fact": "User likes tea"}, {"fact": "User\'s cat is named Jam"}]',
    "objects with content (001)": '[{"content": "User likes tea"}, {"content": "User\'s cat is named Jam"}]',
    "of memory": '{"memory": [{"id": 0, "memory": "User likes tea"}, {"memory": "User\'s cat is named Jam"}]}',
    "unknown wrapper": '{"reasoning": "two facts", "found": @}',
    "wrapper in a wrapper": '{"result": {"facts": @}}',
    "fenced": "```json\n@\n```",
    "fence never closed": "```json\n@",
    "fence after prose with JSON": 'Not ["User hates tea"], but:\n```\n@\n```\nDone.',
    "prose around": "From [the chat] I read: @. I hope this helps [1]!",
    "thinking": '<think>Maybe ["User hates tea"]?</think>\n@',
    "thinking without its beginning": 'Maybe ["User hates tea"]?\n</think>\n@',
    "thinking then fence": '<think>\nhm ```\n[]\n```\n</think>\n\n```json\n{"facts": @}\n```',
    "trailing commas": '{"facts": ["User likes tea", "User\'s cat is named Jam",],}',
    "single quotes": "['User likes tea', 'User\\'s cat is named Jam']",
    "Python's literals": "[{'text': 'User likes tea', 'x': False}, {'text': \"User's cat is named Jam\", 'y': None}]",
    "JSON lines": '{"text": "User likes tea"}\n{"text": "User\'s cat is named Jam"}\n',
    "objects without brackets": '{"text": "User likes tea"}, {"text": "User\'s cat is named Jam"}',
    "byte order mark": "\ufeff@",
    "line breaks inside strings": '["User likes\n tea", "User\'s cat is named\\nJam"]',
    "blank elements": '["User likes tea", "", null, "  ", "User\'s cat is named Jam"]',
}


@pytest.mark.parametrize("answer", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_accepted_forms_of_facts(answer: str) -> None:
    reading = parse_facts(answer.replace("@", LIST))
    assert [fact.text for fact in reading] == [TEA, JAM]
    assert reading.warnings == ()


@pytest.mark.parametrize(
    "answer", ['{"text": "User likes tea"}', '{"fact": "User likes tea"}', '{"facts": {"text": "User likes tea"}}']
)
def test_one_object_stands_for_a_list_of_one(answer: str) -> None:
    assert texts(answer) == [TEA]


@pytest.mark.covers("V37")
@pytest.mark.parametrize(
    "answer",
    [
        "[]",
        '{"facts": []}',
        "{}",
        "```json\n[]\n```",
        '[""]',
        "[null]",
        "Nothing to note: []",
        '<think>["x"]</think>{"facts":[]}',
    ],
)
def test_an_empty_list_is_no_fact_and_no_error(answer: str) -> None:
    reading = parse_facts(answer)
    assert list(reading) == []
    assert reading.warnings == ()


UNREADABLE = {
    "nothing": "",
    "prose": "I could not find any facts, sorry.",
    "a refusal as an object": '{"error": {"message": "I do not have that information", "type": "refusal"}}',
    "a bare string": '"User likes tea"',
    "numbers": "[1, 2, 3]",
    "unclosed thinking": '<think>the user likes tea, so ["User likes tea"] would be',
    "cut inside the first string": '{"facts": ["User likes te',
    "cut before the first element": '{"facts": [',
    "cut inside the only object": '{"text": "User likes tea", "type": "sem',
    "cut inside the only object, wrapped": '{"result": {"text": "User likes tea", "type": "sem',
    "cut inside the first element": '[{"text": "User likes tea", "type": "sem',
    "an empty list beside a cut one": 'Before: []. Now: ["User likes te',
    "unescaped quotes": '["User said "hello" to Bob"]',
    "Python, which is not run": "[__import__('os').getcwd()]",
    "nested too deeply": "[" * 5000 + '"User likes tea"' + "]" * 5000,
}


@pytest.mark.covers("K56")
@pytest.mark.parametrize("answer", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_cannot_be_read_is_an_error_and_never_a_fact(answer: str) -> None:
    with pytest.raises(UnreadableAnswer) as caught:
        parse_facts(answer)
    assert isinstance(caught.value, LLMError)
    assert caught.value.code == "unreadable"
    assert str(len(answer)) in str(caught.value)


@pytest.mark.parametrize(
    "answer",
    [
        '{"facts": ["User likes tea", "User\'s cat is na',
        '["User likes tea", ',
        '["User likes tea"',
        '[{"text": "User likes tea", "type": "semantic"}, {"text": "User\'s cat is named Jam", "ty',
        '{"facts": [{"text": "User likes tea", "sources": [0]}, {"text": "User\'s cat", "sources": [0, 1',
        '["User likes tea", "User said "hello" to Bob"]',
        '["User likes tea", oops, "User\'s cat is named Jam"]',
    ],
)
def test_of_a_damaged_list_the_complete_elements_stay_with_a_warning(answer: str) -> None:
    reading = parse_facts(answer)
    assert [fact.text for fact in reading] == [TEA]
    assert len(reading.warnings) == 1
    assert "cut off or damaged: 1 facts" in reading.warnings[0]


def test_a_damaged_beginning_is_told_too() -> None:
    reading = parse_facts('[{"text": "User has a dog" "type": "semantic"}, {"text": "User likes tea"}]')
    assert [fact.text for fact in reading] == [TEA]
    assert reading.warnings != ()


def test_elements_that_are_no_facts_are_left_out_with_a_warning() -> None:
    reading = parse_facts('["User likes tea", 7, {"note": "x"}]')
    assert [fact.text for fact in reading] == [TEA]
    assert reading.warnings == ("2 of 3 elements of the language model's answer were no facts",)


def test_think_tags_inside_a_fact_are_text() -> None:
    assert texts('Facts: ["User asks what <think> tags are", "User likes tea"]') == [
        "User asks what <think> tags are",
        TEA,
    ]


@pytest.mark.covers("V35")
def test_types_times_and_marks() -> None:
    answer = json.dumps(
        [
            {"text": "To deploy, run make", "type": "Procedural", "sources": ["0", 2, True, "x"]},
            {"text": "User visited Rome", "type": "episodic", "valid_from": "2021-05", "valid_to": "2021-05-09"},
            {"text": "User lived in Bonn", "type": "reflective", "valid_from": "2010", "valid_to": "2004"},
            {"text": "User might move", "hedged": True, "valid_from": "next spring"},
            {"text": "User's ex Mia", "forget": True, "type": ["semantic"], "sources": 1},
        ]
    )
    deploy, rome, bonn, move, mia = parse_facts(answer)
    assert (deploy.type, deploy.sources) == ("procedural", (0, 2))
    assert rome.type == "episodic"
    assert (rome.valid_from, rome.valid_to) == (datetime(2021, 5, 1, tzinfo=UTC), datetime(2021, 5, 9, tzinfo=UTC))
    assert (bonn.type, bonn.valid_from, bonn.valid_to) == ("semantic", datetime(2010, 1, 1, tzinfo=UTC), None)
    assert move.hedged
    assert move.valid_from is None
    assert (mia.forget, mia.sources, mia.type) == (True, (1,), "semantic")


def test_escapes_become_characters_and_half_surrogates_do_not_survive() -> None:
    [text] = texts(r'["caf\u00e9 \ud83d\ude00 \ud83d end\u0000 a\/b \"q\" it\'s"]')
    assert text == 'café 😀 \ufffd end a/b "q" it\'s'
    text.encode("utf-8")


OPERATIONS = {
    "000": '[{"event": "UPDATE", "id": "0", "old_memory": "User likes tea", "data": "User likes green tea"}]',
    "002": '[{"event": "UPDATE", "id": 0, "text": "User likes green tea"}]',
    "mem0": '{"memory": [{"id": "0", "text": "User likes green tea", "event": "UPDATE", "old_memory": "x"}]}',
    "new_memory": '{"operations": [{"event": "update", "id": "ID: 0", "new_memory": "User likes green tea"}]}',
    "fenced": 'Sure!\n```json\n[{"event": "Update", "id": 0, "data": "User likes green tea",}]\n```',
    "one object": '{"event": " UPDATE ", "id": 0, "data": "User likes green tea"}',
    "echo first": '{"new_facts": [{"fact": 0}]}\n\n[{"event": "UPDATE", "id": 0, "data": "User likes green tea"}]',
}


@pytest.mark.covers("U10")
@pytest.mark.parametrize("answer", OPERATIONS.values(), ids=OPERATIONS.keys())
def test_accepted_forms_of_operations(answer: str) -> None:
    assert parse_operations(answer) == [Operation(event="UPDATE", id=0, text="User likes green tea")]


def test_operations_of_several_facts() -> None:
    first, second = '{"fact": "0", "event": "ADD"}', '{"fact": 1, "event": "NOOP", "id": "m7"}'
    third = '{"event": "add", "fact": "User likes tea"}'
    assert parse_operations(f'{{"operations": [{first}, {second}, {third}]}}') == [
        Operation(event="ADD", fact=0),
        Operation(event="NONE", id="m7", fact=1),
        Operation(event="ADD", text="User likes tea"),
    ]


def test_an_element_without_an_event_is_no_operation() -> None:
    reading = parse_operations('[{"text": "User likes tea"}, {"event": "MERGE", "id": 0}, {"event": "NONE"}, "ADD"]')
    assert reading == [Operation(event="NONE")]
    assert reading.warnings == ("3 of 4 elements of the language model's answer were no operations",)
    with pytest.raises(UnreadableAnswer):
        parse_operations('[{"text": "User likes tea"}]')


statements = st.lists(
    st.text(min_size=1, max_size=40).map(lambda t: " ".join(t.replace("\x00", " ").split())).filter(bool), max_size=6
)
statements = statements.filter(lambda ts: not any("\ud800" <= c <= "\udfff" for t in ts for c in t))
WRAPS = (
    "{}",
    "\n\n{}\n",
    "```json\n{}\n```",
    "Sure, here it is:\n```\n{}\n```\nBye!",
    "<think>[1] {{ hm</think>\n{}",
    '{{"facts": {}}}',
    '{{"facts": {}, "n": 1}}',
)


@given(statements, st.sampled_from(WRAPS), st.booleans())
def test_every_json_list_is_read_as_it_is(facts: list[str], wrap: str, ascii_only: bool) -> None:
    assert texts(wrap.format(json.dumps(facts, ensure_ascii=ascii_only))) == facts


@given(statements.filter(bool), st.data())
def test_a_list_cut_anywhere_gives_its_complete_beginning_or_an_error(facts: list[str], data: st.DataObject) -> None:
    whole = json.dumps({"facts": facts}, ensure_ascii=False)
    cut = data.draw(st.integers(0, len(whole) - 3))
    try:
        reading = parse_facts(whole[:cut])
    except UnreadableAnswer:
        return
    assert len(reading) > 0
    assert [fact.text for fact in reading] == facts[: len(reading)]
    assert reading.warnings != ()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(json_values, max_size=4) | st.dictionaries(st.text(max_size=8), json_values, max_size=4))
def test_the_lenient_reader_agrees_with_json_on_json(value: object) -> None:
    found = find_json(json.dumps(value))
    expected = json.loads(json.dumps(value).encode("utf-8", "replace"))
    assert find_json(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()).damaged is False
    assert found.damaged is False
    assert found.groups == [[_without_halves(expected)]]


def _without_halves(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [_without_halves(element) for element in value]
    if isinstance(value, dict):
        return {_without_halves(key): _without_halves(member) for key, member in value.items()}
    return value


FRAGMENTS = [
    "[",
    "]",
    "{",
    "}",
    '"',
    "'",
    ",",
    ":",
    "\\",
    "\\u12",
    "facts",
    "event",
    "ADD",
    "```json\n",
    "```",
    "<think>",
    "</think>",
    "\n",
    " ",
    "1",
    "-",
    "e9",
    "null",
    "id",
    "ü",
    "\x00",
]


@given(st.text() | st.lists(st.sampled_from(FRAGMENTS), max_size=40).map("".join) | json_values.map(json.dumps))
def test_nothing_but_unreadable_answer_is_ever_raised(answer: str) -> None:
    for parse in (parse_facts, parse_operations):
        try:
            reading = parse(answer)
        except UnreadableAnswer:
            continue
        for item in reading:
            if hasattr(item, "type"):
                assert item.text == " ".join(item.text.split())
                assert item.text


@pytest.mark.parametrize(
    "answer",
    [
        '["' * 40_000,
        "[" * 40_000,
        '{"a":[1,' * 10_000,
        "[1," * 40_000,
        '["a",' * 20_000 + "x",
        "```\n" * 20_000,
        "<think>\n" * 10_000,
        "{'" * 30_000,
    ],
)
@pytest.mark.timeout(30)
def test_hostile_answers_take_no_more_than_a_moment(answer: str) -> None:
    try:
        parse_facts(answer)
    except UnreadableAnswer as error:
        assert len(str(error)) < 500


@pytest.mark.parametrize(
    ("relation", "event"),
    [("beside", "ADD"), ("replaces", "UPDATE"), ("Refines ", "UPDATE"), ("ends", "DELETE"), ("same", "NONE")],
)
def test_a_relation_is_an_event(relation: str, event: str) -> None:
    [operation] = parse_operations(json.dumps([{"fact": 0, "relation": relation, "id": 1, "text": "x"}]))
    assert (operation.event, operation.id, operation.fact) == (event, 1, 0)
    assert operation.refines == (relation == "Refines ")


def test_an_event_counts_before_a_relation() -> None:
    [operation] = parse_operations('[{"event": "ADD", "relation": "refines", "text": "x"}]')
    assert (operation.event, operation.refines) == ("ADD", False)
