"""The readers of the data sets, by tiny files of the same form, and a run over such a conversation."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Memory
from perdure.backends.registry import build
from tests.backends.wire.openai import KEY, OpenAIWire
from tests.benchmarks import load, recall_data, recall_metrics, recall_peers, recall_run

LOCOMO = {
    "sample_id": "conv-1",
    "conversation": {
        "speaker_a": "Ana",
        "speaker_b": "Bo",
        "session_2_date_time": "12:48 am on 1 February, 2023",
        "session_2": [{"speaker": "Bo", "dia_id": "D2:1", "text": "I moved to Porto."}],
        "session_1_date_time": "1:56 pm on 8 May, 2022",
        "session_1": [
            {"speaker": "Ana", "dia_id": "D1:1", "text": "Look!", "blip_caption": "a brown dog"},
            {"speaker": "Bo", "dia_id": "D1:2", "text": ""},
            {"speaker": "Bo", "dia_id": "D1:3", "text": "I live in Lisbon."},
        ],
        "session_3_date_time": "9:00 am on 2 March, 2023",
    },
    "qa": [
        {"question": "Where does Bo live?", "answer": "Porto", "evidence": ["D1:3; D2:01", "D9:17"], "category": 1},
        {"question": "When?", "answer": 2022, "evidence": [], "category": 4},
        {"question": "Where does Ana live?", "adversarial_answer": "Porto", "evidence": ["D:2:1"], "category": 5},
    ],
    "observation": {
        "session_1_observation": {"Ana": [["Ana has a dog.", ["D1:1"]]], "Bo": [["Bo lived in Lisbon.", "D1:3, D2:1"]]},
        "session_2_observation": {"Bo": [["Nobody said this.", "D7:1"]]},
    },
}


def file_of(folder: Path, value: Any, name: str = "data.json") -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value), encoding="utf-8")
    return file


def asked(text: str) -> Any:
    return recall_data.Question(text=text, category="k")


@pytest.fixture
def talk(tmp_path: Path) -> Any:
    (conversation,) = recall_data.read_locomo(file_of(tmp_path, [LOCOMO]))
    return conversation


# ---------------------------------------------------------------------- LoCoMo
@pytest.mark.parametrize(
    ("written", "ids"),
    [
        ("D8:6; D9:17", ("D8:6", "D9:17")),
        ("D:11:26", ("D11:26",)),
        ("D30:05", ("D30:5",)),
        ("D", ()),
        (["D1:1 D1:2", "D1:1"], ("D1:1", "D1:2")),
    ],
)
def test_malformed_evidence_is_read(written: Any, ids: tuple[str, ...]) -> None:
    assert recall_data.evidence_ids(written) == ids


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 99)), unique=True), st.sampled_from(["; ", " ", ", ", ""]))
def test_ids_are_found_whatever_stands_between_them(pairs: list[tuple[int, int]], between: str) -> None:
    text = between.join(f"D{session}:{turn}" for session, turn in pairs)
    assert recall_data.evidence_ids(text) == tuple(f"D{session}:{turn}" for session, turn in pairs)


def test_locomo_turns_are_in_order_with_speaker_time_and_caption(talk: Any) -> None:
    start = datetime(2022, 5, 8, 13, 56, tzinfo=UTC)
    assert [(turn.id, turn.speaker, turn.session, turn.at) for turn in talk.turns] == [
        ("D1:1", "Ana", "1", start),
        ("D1:3", "Bo", "1", start + timedelta(minutes=2)),  # the empty one between them said nothing
        ("D2:1", "Bo", "2", datetime(2023, 2, 1, 0, 48, tzinfo=UTC)),
    ]
    assert talk.turns[0].text == "Look! [image: a brown dog]"
    assert [[turn.id for turn in part] for part in recall_data.by_sessions(talk)] == [["D1:1", "D1:3"], ["D2:1"]]


def test_locomo_questions_keep_the_evidence_that_there_is(talk: Any) -> None:
    moved, when, adversarial = talk.questions
    assert (moved.category, moved.gold, moved.answer) == ("multi-hop", ("D1:3", "D2:1"), "Porto")
    assert (when.category, when.gold, when.answer) == ("single-hop", (), "2022")
    assert (adversarial.category, adversarial.gold, adversarial.abstain) == ("adversarial", ("D2:1",), True)
    assert adversarial.answer == recall_data.NOT_TOLD


def test_observations_name_their_turns_and_those_of_none_are_dropped(talk: Any) -> None:
    assert [(each.text, each.turns) for each in talk.observations] == [
        ("Ana has a dog.", ("D1:1",)),
        ("Bo lived in Lisbon.", ("D1:3", "D2:1")),
    ]


# ---------------------------------------------------------------------- BEAM
def beam(folder: Path) -> Any:
    user = {"role": "user", "content": "My budget is 5 euros. ->-> 1,2"}
    chat = [
        {
            "batch_number": 1,
            "time_anchor": None,
            "turns": [[{**user, "id": 0, "time_anchor": "March-15-2024"}, {**user, "id": 1, "role": "assistant"}]],
        },
        {
            "batch_number": 2,
            "time_anchor": "March-01-2024",  # earlier than what came before
            "turns": [[{"role": "user", "id": 2, "content": "See a ->-> b. ->-> 5,14)"}], [{**user, "id": 3}]],
        },
    ]
    probing = {
        "abstention": [{"question": "Why?", "ideal_response": "Not told.", "rubric": ["says so"]}],
        "knowledge_update": [
            {"question": "Budget?", "answer": "6", "source_chat_ids": {"original_info": [0], "updated_info": [3, 99]}}
        ],
        "event_ordering": [{"question": "Order?", "answer": "a, b", "source_chat_ids": [2, [0, 1], 2, 99]}],
        "information_extraction": [{"question": "What?", "answer": "5", "source_chat_ids": [1, 1]}],
    }
    for number in ("10", "9"):
        file_of(folder / number, chat, "chat.json")
        file_of(folder / number, probing, "probing_questions/probing_questions.json")
    (folder / "11").mkdir()
    return recall_data.read_beam(folder)


def test_beam_chats_come_by_number_and_without_the_generators_mark(tmp_path: Path) -> None:
    first, second = beam(tmp_path)
    assert (first.id, second.id) == ("9", "10")
    assert [turn.text for turn in first.turns] == ["My budget is 5 euros."] * 2 + [
        "See a ->-> b.",
        "My budget is 5 euros.",
    ]
    assert [turn.session for turn in first.turns] == ["1", "1", "2", "2"]


def test_beam_times_never_run_back(tmp_path: Path) -> None:
    start = datetime(2024, 3, 15, tzinfo=UTC)
    assert [turn.at for turn in beam(tmp_path)[0].turns] == [start + timedelta(minutes=each) for each in range(4)]


def test_beam_questions_have_pairs_groups_and_abstentions(tmp_path: Path) -> None:
    abstention, update, order, fact = beam(tmp_path)[0].questions
    assert (abstention.abstain, abstention.gold, abstention.rubric) == (True, (), ("says so",))
    assert (update.pair, update.gold) == ((("0",), ("3",)), ("0", "3"))
    assert (order.groups, order.gold) == ((("2",), ("0", "1")), ("2", "0", "1"))
    assert (fact.gold, fact.pair, fact.groups) == (("1",), None, ())


def test_the_truncated_chat_is_preferred(tmp_path: Path) -> None:
    beam(tmp_path)
    file_of(tmp_path / "9", [], "chat_trunecated.json")
    assert [len(each.turns) for each in recall_data.read_beam(tmp_path)] == [0, 4]


# ---------------------------------------------------------------------- LongMemEval
def longmemeval(folder: Path, id: str = "q1") -> Any:
    evidence = {"role": "user", "content": "I adopted a cat.", "has_answer": True}
    entry = {
        "question_id": id,
        "question_type": "single-session-user",
        "question": "Which pet?",
        "answer": "a cat",
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_session_ids": ["late", "early"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/04/10 (Mon) 17:50"],
        "haystack_sessions": [
            [evidence],
            [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": ""}],
        ],
        "answer_session_ids": ["late"],
    }
    (conversation,) = recall_data.read_longmemeval(file_of(folder, [entry]))
    return conversation


def test_longmemeval_sessions_are_in_the_order_of_their_dates(tmp_path: Path) -> None:
    history = longmemeval(tmp_path)
    assert [(turn.session, turn.text) for turn in history.turns] == [("early", "Hello."), ("late", "I adopted a cat.")]
    (question,) = history.questions
    assert question.gold == (history.turns[1].id,)
    assert question.asked_at == datetime(2023, 5, 30, 23, 40, tzinfo=UTC)


def test_longmemeval_questions_that_cannot_be_answered_have_no_evidence(tmp_path: Path) -> None:
    (question,) = longmemeval(tmp_path, "q1_abs").questions
    assert (question.category, question.abstain, question.gold) == ("abstention", True, ())


# ---------------------------------------------------------------------- a run
class Words:
    """Vectors that count three words, so that what is near is known."""

    def __call__(self, texts: list[str]) -> Any:
        rows = [[text.lower().count(word) + 0.01 for word in ("dog", "lisbon", "porto")] for text in texts]
        matrix = np.array(rows, np.float32)
        return matrix / np.linalg.norm(matrix, axis=1, keepdims=True)


def test_the_arms_name_the_turns_that_answer(talk: Any) -> None:
    for arm in recall_peers.built_in(recall_peers.Vectors(Words(), 3)):
        arm.load(talk)
        if arm.name == "fusion":
            assert arm.ask(talk, "Who moved to Porto?", 1) == ["D2:1"]
        assert arm.ask(talk, "Who has a dog?", 3)[0] == "D1:1"


def test_a_text_is_encoded_once() -> None:
    seen: list[str] = []

    def encode(texts: list[str]) -> Any:
        seen.extend(texts)
        return Words()(texts)

    vectors = recall_peers.Vectors(encode, 3)
    assert vectors(["a dog", "Porto", "a dog"]).shape == (3, 3)
    assert vectors.lists(["Porto"]) == [vectors(["Porto"])[0].tolist()]
    assert vectors([]).shape == (0, 3)
    assert seen == ["a dog", "Porto"]


def test_a_peer_that_is_not_installed_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(vectors: Any, folder: Path) -> Any:
        with recall_peers._package("nowhere"):
            import nowhere_to_be_found

            return nowhere_to_be_found

    monkeypatch.setenv("PERDURE_EMBEDDER__PROVIDER", "hashed")
    monkeypatch.setitem(recall_peers.PEERS, "absent", absent)
    with Memory() as memory:
        scored, notes = recall_run.beside(["absent"], memory.embedder, [], 10)
    assert list(scored) == ["bm25", "dense", "fusion"]
    assert "absent: nowhere is not installed here (No module named 'nowhere_to_be_found')" in notes


@pytest.mark.parametrize("mode", recall_run.MODES)
def test_results_stand_for_the_turns_they_came_from(
    mode: str, talk: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_EMBEDDER__PROVIDER", "hashed")
    folder = tmp_path / "store"
    for _ in range(2):  # the second time what was put in is found again
        loaded = recall_run.Loaded(folder, mode, "plain")
        loaded.load(talk)
        results = loaded.ask(talk, asked("I live in Lisbon Bo lived in Lisbon"), 5).results
        assert results and not any(result.foreign for result in results)
        assert "D1:3" in results[0].turns
        assert "Lisbon" in results[0].text or mode == "rules", "by which what was replaced is past"
        loaded.memory.close()
    with pytest.raises(SystemExit, match="was filled with --mode"):
        recall_run.Loaded(folder, "turns" if mode != "turns" else "rules")


def test_telling_a_conversation_twice_doubles_turns_and_no_facts(talk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_EMBEDDER__PROVIDER", "hashed")
    assert recall_run.duplicates(talk, "turns") == 1.0
    assert recall_run.duplicates(talk, "facts") == 0.0


def test_a_result_of_another_conversation_is_foreign(
    talk: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_EMBEDDER__PROVIDER", "hashed")
    loaded = recall_run.Loaded(tmp_path / "store", "turns", "plain")
    loaded.load(talk)
    other = recall_data.Conversation("conv-2", (), talk.questions)
    item = loaded.memory.search("Lisbon", user_id="conv-1", limit=1, preset="plain").results[0]
    assert not loaded._result(item, talk).foreign
    assert loaded._result(item, other).foreign
    stray = loaded.memory.add("Lisbon is warm", user_id="conv-1", infer=False).results[0]
    assert loaded._result(loaded.memory.get(stray.id), talk).foreign  # nobody knows which turn it stands for
    loaded.memory.close()


@pytest.mark.parametrize(
    ("verdict", "share"),
    [
        ('{"scores": [1, 0.5]}', 0.75),
        ('{"scores": [1]}', 0.5),
        ('{"scores": [1, 1, 1]}', 1.0),
        ('{"scores": [9, -1]}', 0.5),
        ('{"scores": "many"}', 0.0),
        ("[1, 1]", 0.0),
        ("yes", 0.0),
    ],
)
def test_a_verdict_is_read_and_what_cannot_be_read_counts_nothing(verdict: str, share: float) -> None:
    assert recall_run.read_verdict(verdict, 2) == share


def test_a_model_answers_from_what_was_found_and_judges_by_the_points() -> None:
    question = recall_data.Question(
        text="Where?", category="k", answer="Porto", asked_at=datetime(2023, 3, 1, tzinfo=UTC)
    )
    with OpenAIWire() as wire:
        wire.answers += ["In Porto.", '{"scores": [1]}']
        llm = build("llms", "openai", {"base_url": wire.base_url, "api_key": KEY, "retry_delay": 0.0})
        scored = [recall_metrics.Scored(None, question, None, ["[2023-02-01] Bo: I moved to Porto."], 0, {}, {})]
        assert asyncio.run(recall_run.answered(llm, scored)) == [1.0]
        asked, judged = (body["messages"][-1]["content"] for body in wire.bodies())
    assert (
        "- [2023-02-01] Bo: I moved to Porto." in asked and "01 March 2023" in asked and "Porto." not in question.text
    )
    assert "1. Porto" in judged and "Answer: In Porto." in judged


def run(
    name: str, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *more: str
) -> dict[str, Any]:
    """The JSON that a benchmark prints, run to its end without finding anything that must not be."""
    monkeypatch.setenv("PERDURE_EMBEDDER__PROVIDER", "hashed")
    monkeypatch.setattr("sys.argv", [name, "--data", str(data), "--json", "--preset", "plain", *more])
    assert load(name).main() == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert set(told["arms"]) == {"perdure", "bm25", "dense", "fusion"}
    return told


def test_locomo_runs_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = run("locomo", file_of(tmp_path, [LOCOMO]), monkeypatch, capsys)
    assert told["questions"]["all"]["r@5"] == 1.0 and told["questions"]["all"]["n"] == 2
    assert told["figures"]["without evidence to be found"] == 1 and told["figures"]["foreign"] == 0
    assert {target["name"]: target["n"] for target in told["targets"]}["multi-hop r@10"] == 1


@pytest.mark.parametrize("mode", ["facts", "rules"])
def test_locomo_counts_what_is_told_twice(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = run("locomo", file_of(tmp_path, [LOCOMO]), monkeypatch, capsys, "--mode", mode)
    assert told["figures"]["duplicates, told twice"] == 0


def test_beam_finds_the_original_as_of_a_time_before_the_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    beam(tmp_path)
    told = run("beam", tmp_path, monkeypatch, capsys)
    assert told["figures"]["as of: later messages seen"] == 0
    targets = {target["name"]: target for target in told["targets"]}
    assert targets["as of: the original is found"]["value"] == 1.0 and targets["freshness"]["n"] == 2
    assert told["figures"]["events to be ordered, first 20"] == 1.0
    assert told["figures"]["oldest first: events, first 20"] == 1.0
    assert told["figures"]["oldest first: their order (tau)"] == -1.0, "the data names the later event first"


def test_longmemeval_is_scored_by_sessions_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    longmemeval(tmp_path)
    told = run("longmemeval", tmp_path / "data.json", monkeypatch, capsys)
    assert told["sessions"]["single-session-user"]["any@5"] == 1.0
    assert told["questions"]["all"]["r@2k"] == 1.0


def test_a_named_model_answers_every_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    data = file_of(tmp_path, [LOCOMO])
    with OpenAIWire() as wire:
        wire.answers += ['{"scores": [1]}'] * 6  # serves as an answer and as a verdict: three questions, two calls each
        told = run("locomo", data, monkeypatch, capsys, "--qa", "gpt-4o-mini", "--base-url", wire.base_url)
        assert {body["model"] for body in wire.bodies()} == {"gpt-4o-mini"}
    assert told["judged"] == {"multi-hop": 1.0, "single-hop": 1.0, "adversarial": 1.0, "all": 1.0}
