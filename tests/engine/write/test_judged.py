"""The learned judge beside the rules: it vetoes, it makes sure, it orders, and nothing depends on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from perdure.backends.embedders.minilm import MiniLMEmbedder
from perdure.domain.clock import iso
from perdure.domain.errors import EmbeddingError
from perdure.domain.fact import Decision, Fact, Neighbour, PairJudge, Relation
from perdure.domain.memory import MemoryItem, text_hash
from perdure.domain.scope import Scope
from perdure.engine.write.curator import Answers, Renewed, RulesCurator
from perdure.pipeline.curation.rules.extraction import worth
from perdure.pipeline.curation.rules.reconciliation.decisions import COMPARED
from tests.conftest import Open

ANA = {"user_id": "ana"}
NOW = iso(datetime(2026, 5, 4, tzinfo=UTC))
NONE = Answers(None, Scope(user_id="ana"))
REPLACES, BESIDE = Relation(0.97, 0.0, 0.0, 0.02, 0.01), Relation(0.01, 0.0, 0.01, 0.97, 0.01)


class Told:
    """A judge that always says the same, and notes what it was asked."""

    def __init__(self, relation: Relation = BESIDE, worth: float = 0.5) -> None:
        self.asked: list[tuple[str, str]] = []
        self._relation, self._worth = relation, worth

    def relations(self, pairs: Sequence[tuple[str, str]]) -> list[Relation]:
        self.asked += pairs
        return [self._relation for _ in pairs]

    def worth(self, model: str, pairs: Sequence[tuple[str, str]]) -> list[float]:
        self.asked += pairs
        return [self._worth for _ in pairs]


def curator(judge: Callable[[], PairJudge | None]) -> RulesCurator:
    return RulesCurator(1_000, keeps_words=True, takes_notes=True, judge=judge)


def near(text: str, similarity: float = 0.7, id: str = "m", kind: str = "facts") -> Neighbour:
    scope, hash = Scope(user_id="ana"), text_hash(text)
    item = MemoryItem(
        id=id, memory=text, hash=hash, scope=scope, kind=kind, created_at=NOW, updated_at=NOW, told_at=NOW
    )
    return Neighbour(item=item, similarity=similarity)


def decided(judge: PairJudge | None, fact: str, memory: str, similarity: float = 0.7) -> Decision:
    (decision,) = judged(judge, Fact(text=fact), [near(memory, similarity)])
    return decision


def judged(judge: PairJudge | None, fact: Fact, memories: Sequence[Neighbour]) -> list[Decision]:
    return asyncio.run(curator(lambda: judge).judge([fact], [memories], answers=NONE)).decisions[0]


def renewed(judge: PairJudge | None, fact: Fact, earlier: Sequence[Neighbour]) -> Renewed:
    async def find() -> Sequence[Neighbour]:
        return earlier

    return asyncio.run(curator(lambda: judge).renewed(fact, find))


def test_a_change_that_the_judge_is_against_is_not_made() -> None:
    told = ("The meeting with Anna was moved to Tuesday", "The meeting with Anna is on Monday")
    assert (decided(None, *told)).event == "UPDATE"
    assert (decided(Told(BESIDE), *told)).event == "ADD"


def test_what_a_person_has_one_of_needs_no_judge() -> None:
    assert decided(Told(BESIDE), "User lives in Munich now", "User lives in Berlin").event == "UPDATE"


def test_a_change_that_is_told_is_made_where_the_judge_is_sure() -> None:
    told = ("User switched dentists, Dr Amsel now", "User's dentist is Dr Koch in the Lindenstrasse")
    assert (decided(None, *told)).event == "ADD"
    assert (decided(Told(REPLACES), *told)).event == "UPDATE"


def test_what_is_only_considered_replaces_nothing_however_sure_the_judge_is() -> None:
    fact = Fact(text="User might move to Oslo", hedged=True)
    assert [each.event for each in judged(Told(REPLACES), fact, [near("User lives in Bergen")])] == ["ADD"]


def test_only_the_nearest_are_judged() -> None:
    judge = Told()
    memories = [near(f"User has {number} apples", 0.9 - number / 20, str(number)) for number in range(15)]
    judged(judge, Fact(text="User has many apples"), memories)
    assert [old for _, old in judge.asked] == [f"User has {number} apples" for number in range(COMPARED)]
    judge.asked.clear()
    judged(judge, Fact(text="User has a pear"), [near("Rain", 0.1)])
    assert judge.asked == []


def test_without_a_cosine_the_judge_is_not_asked() -> None:
    judge = Told()
    alone = Neighbour(item=near("User has a pear").item, similarity=None)
    judged(judge, Fact(text="User has two pears"), [alone])
    assert judge.asked == []


def test_what_the_judge_says_is_renewed_is_linked() -> None:
    earlier = [near("the party is level 3", id="a")]
    note = Fact(text="we're level five now", kind="notes")
    assert renewed(Told(REPLACES), note, earlier) == Renewed(("a",))
    assert renewed(Told(BESIDE), note, earlier) == Renewed()
    assert renewed(None, note, earlier) == Renewed()
    assert renewed(Told(REPLACES), note, []) == Renewed()


def test_a_fact_takes_the_place_of_a_note_that_it_surely_replaces() -> None:
    fact, gym = Fact(text="User left the gym for the climbing hall"), "the gym twice a week, mon + thu"
    earlier = [near("User likes tea", 0.72), near(gym, id="a", kind="notes")]
    judge = Told(REPLACES)
    assert renewed(judge, fact, earlier) == Renewed(("a",), "a")
    assert judge.asked == [(fact.text, gym)], "it was compared with facts when it was decided"
    assert renewed(Told(BESIDE), fact, earlier) == Renewed()
    assert renewed(Told(REPLACES), fact, [near(gym, 0.2, kind="notes")]) == Renewed(), "too far"
    assert renewed(Told(REPLACES), replace(fact, hedged=True), earlier).over is None
    assert renewed(Told(REPLACES), replace(fact, kind="notes"), earlier).over is None


def test_the_passage_of_a_fact_is_judged_where_the_fact_alone_leaves_doubt() -> None:
    fact = Fact(text="User went to Leeds", passage="The bank said no. So Leeds it is, from May.")
    old = near("User is buying a flat in York")
    judge = Told(Relation(0.1, 0.0, 0.0, 0.8, 0.1))
    judged(judge, fact, [old])
    assert judge.asked == [(fact.text, old.item.memory), (fact.passage, old.item.memory)]
    judge = Told(BESIDE)
    judged(judge, fact, [old])
    assert judge.asked == [(fact.text, old.item.memory)], "the fact alone leaves no doubt"


def test_a_passage_is_judged_beside_a_memory_of_the_same_person_as_if_about_the_user() -> None:
    judge = Told(Relation(0.1, 0.0, 0.0, 0.8, 0.1))
    fact = Fact(text="Mara went to York", passage="Hull was too far. I went to York.")
    judged(judge, fact, [near("Mara lives in Hull")])
    assert judge.asked == [("User went to York", "User lives in Hull"), (fact.passage, "User lives in Hull")]


def test_what_is_said_around_a_note_makes_it_newer() -> None:
    class Around(Told):
        def relations(self, pairs: Sequence[tuple[str, str]]) -> list[Relation]:
            return [REPLACES if "no more" in new else Relation(0.1, 0.0, 0.0, 0.8, 0.1) for new, _ in pairs]

    earlier = [near("piano on mondays", 0.5, id="a", kind="notes")]
    note = Fact(text="Drums on fridays", kind="notes", passage="no more piano, she cried. Drums on fridays")
    assert renewed(Around(), note, earlier) == Renewed(("a",))
    assert renewed(Around(), replace(note, passage=""), earlier) == Renewed()


def test_who_is_told_of_alone_takes_nobody_elses_place() -> None:
    news, one = "On the choir list Otto has gone up to tenor", "The choir list has Otto as bass"
    assert decided(Told(REPLACES), news, f"{one}, Ines as alto and Karl as tenor").event == "ADD"
    assert decided(Told(REPLACES), news, one).event == "UPDATE"


def test_what_its_own_message_says_is_not_replaced_by_likelihood_alone() -> None:
    fact = Fact(text="User switched dentists, Dr Amsel now")
    memory = near("User's dentist is Dr Koch in the Lindenstrasse")
    assert [each.event for each in judged(Told(REPLACES), fact, [memory])] == ["UPDATE"]
    assert [each.event for each in judged(Told(REPLACES), fact, [replace(memory, beside=True)])] == ["ADD"]


@pytest.mark.parametrize(
    ("fact", "memory"),
    [
        ("User split up with Sam", "User's boyfriend Sam is allergic to nuts"),
        ("Ben left the company", "User's colleague Ben is allergic to bees"),
        ("User fell out with dave", "User's mate dave is diabetic"),
    ],
)
def test_what_somebody_is_outlives_that_they_left(fact: str, memory: str) -> None:
    (decision,) = judged(Told(REPLACES), Fact(text=fact), [near(memory)])
    assert (decision.event, decision.links) == ("ADD", ())


def test_a_fault_of_the_comparison_costs_a_link_and_no_fact(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Told):
        def relations(self, pairs: Sequence[tuple[str, str]]) -> list[Relation]:
            raise ZeroDivisionError

    note = Fact(text="we're level five now", kind="notes")
    assert renewed(Broken(), note, [near("the party is level 3")]) == Renewed()
    assert "a fault in perdure" in caplog.text


def test_rules_go_on_without_a_judge_that_cannot_be_loaded(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> PairJudge | None:
        raise EmbeddingError("minilm: the weights are damaged")

    fact, memory = Fact(text="User drives a Volvo now"), near("User drives a Skoda")
    judgement = asyncio.run(curator(broken).judge([fact], [[memory]], answers=NONE))
    assert [decision.event for decision in judgement.decisions[0]] == ["UPDATE"]
    assert judgement.warnings == []
    assert "the weights are damaged" in caplog.text


def test_the_judge_is_heard_where_the_features_leave_doubt() -> None:
    doubtful = {"bias": 0.0}
    plain = worth.odds("fact", "", "", doubtful)
    assert plain == 0.5
    for share, is_more in ((0.99, True), (0.01, False)):
        judge = Told(worth=share)
        heard = worth.learned(lambda judge=judge: judge)("fact", "User has a pear", "I've a pear", doubtful)  # type: ignore[misc]
        assert (heard > plain) is is_more
        assert judge.asked == [("User has a pear", "I've a pear")]


@pytest.mark.parametrize("features", [{"message.foreign": 1.0}, {"fact.words": 1000.0}])
def test_the_judge_is_not_asked_about_other_languages_nor_without_doubt(features: dict[str, float]) -> None:
    judge = Told(worth=0.99)
    assert worth.learned(lambda: judge)("fact", "x", "y", features) == worth.odds("fact", "x", "y", features)
    assert judge.asked == []


@pytest.fixture
def replacing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge of minilm says of everything that it replaces what was said before."""
    monkeypatch.setattr(MiniLMEmbedder, "judge", lambda _: Told(REPLACES))


@pytest.mark.usefixtures("replacing")
def test_a_fact_in_the_place_of_a_note(open_memory: Open) -> None:
    memory = open_memory(embedder={"provider": "minilm"})
    memory.add_facts(["User's boiler is from Vaillant"], **ANA)
    memory.add("restic -> nas-kellar, nightly 02:15", **ANA)
    (note,) = memory.get_all(kind="notes", **ANA).results
    (event,) = memory.add("hm, restic goes to s3 bucket eu-granat from tonight", **ANA).results
    assert (event.event, event.id, event.old_memory) == ("UPDATE", note.id, note.memory)
    assert event.event_id is not None and memory.get_all(kind="notes", **ANA).results == []
    (stored,) = (item for item in memory.get_all(**ANA).results if item.id == note.id)
    assert "granat" in stored.memory and stored.kind == "facts" and len(stored.sources) == 2
    assert [each.event for each in memory.history(note.id)] == ["ADD", "UPDATE"]
    asked = "Where does restic back up to?"
    assert not any("kellar" in item.memory for item in memory.search(asked, **ANA).results)
    for back in ("Where did restic back up to before?", "nas-kellar"):
        *_, last = memory.search(back, **ANA).results
        assert "kellar" in last.memory, "who asks for it by its name, or for earlier times, finds the words"
    memory.undo(event.event_id)
    (restored,) = memory.get_all(kind="notes", **ANA).results
    assert (restored.id, restored.memory) == (note.id, note.memory)


@pytest.mark.usefixtures("replacing")
def test_a_note_in_whose_place_a_fact_stands_is_forgotten_with_it(open_memory: Open) -> None:
    memory = open_memory(embedder={"provider": "minilm"})
    memory.add("restic -> nas-kellar, nightly 02:15", **ANA)
    (event,) = memory.add("hm, restic goes to s3 bucket eu-granat from tonight", **ANA).results
    memory.forget(id=event.id)
    left = memory.search("restic", include_past=True, **ANA).results
    assert [item.memory for item in left] == []


@pytest.mark.usefixtures("replacing")
def test_a_later_note_comes_before_the_one_that_it_replaces(open_memory: Open) -> None:
    memory = open_memory(embedder={"provider": "minilm"})
    memory.add("restic -> nas-kellar, nightly 02:15", **ANA)
    memory.add("restic -> s3-granat, nightly 03:15", **ANA)
    first, second = memory.get_all(kind="notes", **ANA).results
    assert ("kellar" in first.memory, second.older) == (True, (first.id,)), "a note links, and retires nothing"
    found = [item.id for item in memory.search("Where does restic back up to?", **ANA).results]
    assert found.index(second.id) < found.index(first.id)


def test_what_the_judge_was_not_asked_about_is_not_changed() -> None:
    """Whoever is told of by name has many memories that look alike, and a change is of the nearest."""
    told, memory = "The meeting with Anna was moved to Tuesday", "The meeting with Anna is on Monday"
    nearer = [near(f"Anna has a cat called Tom{n}", 0.9 - n / 100, str(n)) for n in range(COMPARED)]
    judge = Told(REPLACES)
    (decision,) = judged(judge, Fact(text=told), [near(memory, 0.6), *nearer])
    assert (told, memory) not in judge.asked
    assert decision.event == "ADD"
    (decision,) = judged(Told(REPLACES), Fact(text=told), [near(memory, 0.6)])
    assert decision.event == "UPDATE"


def test_what_somebody_did_is_not_over_because_of_something_else() -> None:
    went = "Caroline went to a support group yesterday"
    assert decided(Told(REPLACES), "The support group has made Caroline feel accepted", went).event == "ADD"
    assert decided(Told(REPLACES), "Caroline is excited about giving back", went).event == "ADD"


@pytest.mark.parametrize(
    ("deed", "due"),
    [
        ("User handed in the essay on 12 June", "The deadline for the essay is 30 June"),
        ("User sent the revised version already, on 13 March", "The deadline for revised version is 31 March"),
    ],
)
def test_when_a_thing_was_done_is_not_when_it_is_due(deed: str, due: str) -> None:
    assert decided(Told(REPLACES), deed, due).event == "ADD"
    assert decided(Told(REPLACES), due.replace("30", "28").replace("31", "28"), due).event == "UPDATE"


def test_the_price_of_one_thing_is_none_of_another() -> None:
    told = ("The kitchen is £9,400 now", "The van is on finance, £310 a month")
    assert decided(Told(REPLACES), *told).event == "ADD"
    assert decided(Told(REPLACES), "The van is £290 a month now", told[1]).event == "UPDATE"


def test_what_the_judge_sees_beside_another_is_not_known_by_it() -> None:
    told = ("User's mum is living with User for now", "User's mum came out of hospital")
    assert decided(Told(BESIDE), *told).event == "ADD"


def test_who_was_refused_did_not_get_it() -> None:
    refused, given = "Kerem got refused for the residence permit", "Kerem gets the residence permit"
    assert decided(None, given, refused).event != "NONE"
    assert decided(None, refused, refused).event == "NONE"
