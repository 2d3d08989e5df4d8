"""Forgetting: every place is named in the report, and no byte of the text is left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from perdure import InvalidInputError, Memory, PerdureError, ScopeError
from tests.conftest import Open

pytestmark = pytest.mark.covers("U4")

ANA = {"user_id": "ana"}
PLACES = ["store", "text_index", "history", "episodes", "versions", "journal", "cache"]


def holding(folder: Path, text: str) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "memory"


def test_no_byte_is_left(memory: Memory, folder: Path) -> None:
    memory.add("The wifi password is Xylophone-77 at home. My dog is called Rex.", idempotency_key="k", **ANA)
    item = next(item for item in memory.get_all(**ANA).results if "Xylophone" in item.memory)
    memory.update(item.id, "User's wifi password is Xylophone-78")
    report = memory.forget(id=item.id)
    assert [place.place for place in report.places] == PLACES
    assert not report.pending
    assert report["dry_run"] is False
    memory.close()
    assert holding(folder, "Xylophone") == []


def test_bytes_are_gone_without_closing_too(memory: Memory, folder: Path) -> None:
    memory.add("The wifi password is Xylophone-77 at home", **ANA)
    memory.forget(**ANA)
    assert holding(folder, "Xylophone") == []


def test_report_and_dry_run(quick: Memory) -> None:
    id = quick.add("User hides gold", infer=False, **ANA).results[0].id
    quick.update(id, "User hides silver")
    dry = quick.forget(id=id, dry_run=True)
    found = {place.place: (place.count, place.status) for place in dry.places}
    assert found["store"] == (1, "found")
    assert found["versions"] == (1, "found")
    assert found["history"][0] == 2
    assert found["episodes"] == (1, "found")
    assert quick.get(id) is not None, "a dry run changes nothing"
    report = quick.forget(id=id)
    assert [item.id for item in report.results] == [id]
    assert quick.get(id) is None
    assert all(record.erased and record.old_value is None and record.new_value is None for record in quick.history(id))
    assert quick.get_all(as_of="2999-01-01", **ANA).results == []


def test_other_facts_keep_their_text_and_lose_the_source(memory: Memory) -> None:
    memory.add("My dog is called Rex. My bank is Nordea.", **ANA)
    bank, dog = sorted(memory.get_all(**ANA).results, key=lambda item: "Rex" in item.memory)
    assert bank.sources == dog.sources != ()
    memory.forget(id=bank.id)
    left = memory.get_all(**ANA).results
    assert [item.memory for item in left] == [dog.memory]
    assert left[0].sources == ()


def test_the_report_says_why_each_memory_goes_and_which_lose_a_message(memory: Memory) -> None:
    memory.add("I live in Bergen.", **ANA)
    memory.add("My sister is Lea and I moved to Trondheim.", **ANA)
    sister, home = sorted(memory.get_all(**ANA).results, key=lambda item: "Lea" not in item.memory)
    dry = memory.forget(query="I moved to Trondheim", threshold=0.4, dry_run=True, **ANA)
    done = memory.forget(query="I moved to Trondheim", threshold=0.4, **ANA)
    for report in (dry, done):
        assert report.reasons[home.id] == "matched" and report.reasons.keys() == {item.id for item in report.results}
        assert {report.reasons[item.id] for item in report.results if item.id != home.id} <= {"message", "matched"}
        assert [item.id for item in report.unsourced] == [sister.id]
        assert report.model_dump()["unsourced"][0]["memory"] == sister.memory
    assert [item.id for item in memory.get_all(**ANA).results] == [sister.id]


def test_another_value_and_what_was_derived_are_told_apart_from_the_match(open_memory: Open) -> None:
    with open_memory(updates="supersede") as memory:
        first = memory.add("I live in Bergen.", **ANA).results[0].id
        newer = memory.add("I moved to Trondheim.", **ANA).results[0].id
        report = memory.forget(id=first, dry_run=True)
        assert first != newer and report.reasons[newer] == "value"
        for day in ("Monday", "Tuesday", "Wednesday"):
            memory.add(f"I deployed to staging on {day}.", user_id="eva")
        (insight,) = memory.reflect(user_id="eva").insights
        report = memory.forget(id=insight.memory_ids[0], dry_run=True)
        assert report.reasons[insight.id] == "derived" and report.reasons[insight.memory_ids[0]] == "matched"
        assert set(memory.forget(user_id="eva", dry_run=True).reasons.values()) == {"matched"}


def test_by_query_takes_what_scores_enough(memory: Memory) -> None:
    memory.add_facts(["User is allergic to peanuts", "User plays the oboe in a band"], **ANA)
    report = memory.forget(query="User is allergic to peanuts", threshold=0.9, **ANA)
    assert [item.memory for item in report.results] == ["User is allergic to peanuts"]
    assert [item.memory for item in memory.get_all(**ANA).results] == ["User plays the oboe in a band"]


@pytest.mark.parametrize("erase", [True, False])
def test_by_query_takes_messages_that_no_fact_rests_on(memory: Memory, erase: bool) -> None:
    memory.add("I moved to Lisbon last year.", **ANA)
    memory.add(
        [
            {"role": "user", "content": "what is the weather in Lisbon?"},
            {"role": "assistant", "content": "It rains in Lisbon."},
        ],
        **ANA,
    )
    memory.add("I live in Lisbon.", **ANA)
    memory.add("My dog is called Rex.", **ANA)
    memory.add("I live in Lisbon.", user_id="bob")
    report = memory.forget(query="Lisbon", threshold=0.3, erase=erase, **ANA)
    gone = {item.memory: report.reasons[item.id] for item in report.results}
    assert gone.keys() == {
        "User moved to Lisbon last year", "I moved to Lisbon last year.", "what is the weather in Lisbon?",
        "It rains in Lisbon.", "I live in Lisbon.",
    }  # fmt: skip
    assert set(gone.values()) == {"matched"}
    left = [item.memory for item in memory.search("Lisbon", **ANA).results]
    assert left and not any("Lisbon" in text for text in left)
    assert any("Lisbon" in item.memory for item in memory.search("Lisbon", user_id="bob").results)


def test_by_query_takes_messages_that_have_its_words_whatever_they_score(memory: Memory) -> None:
    memory.add("what is the weather in Lisbon?", **ANA)
    memory.add("My dog is called Rex.", **ANA)
    assert memory.forget(query="bicycle", threshold=0.5, **ANA).results == []
    assert any("Rex" in item.memory for item in memory.search("Rex", **ANA).results)
    (gone,) = memory.forget(query="Lisbon", threshold=0.99, **ANA).results
    assert gone.memory == "what is the weather in Lisbon?"


GRETE = (
    "User shares an allotment with their colleague Tobias",
    "Tobias broke his wrist on the ice",
    "Tobias keeps bees",
    "Tobias is getting married in spring",
    "User's sister Mina broke her wrist too",
    "User's boiler has to be repaired",
    "User repaired the boiler pump twice",
    "User's boat is in the harbour of Kiel",
)


@pytest.mark.parametrize(
    ("query", "gone"),
    [
        ("Tobias", GRETE[:4]),
        ("everything about Tobias", GRETE[:4]),
        ("please forget what I told you about Tobias", GRETE[:4]),
        ("tobias", GRETE[:4]),
        ("Tobias's wrist", GRETE[1:2]),
        ("Tobias's broken wrist", GRETE[1:2]),
        ("Tobias's beekeeping", GRETE[2:3]),
        ("Tobias's wedding", GRETE[3:4]),
        ("Tobias's salary", ()),
        ("Mina's wrist", GRETE[4:5]),
        ("my sister's wrist", GRETE[4:5]),
        ("Mina's wedding", ()),
        ("Mina's son", ()),
        ("repairing the boiler", GRETE[5:7]),
        ("the boiler pump", GRETE[6:7]),
        ("the thing", ()),
    ],
)
def test_by_query_takes_what_names_both_the_person_and_the_matter(
    memory: Memory, query: str, gone: tuple[str, ...]
) -> None:
    for text in GRETE:
        memory.add(text, infer=False, **ANA)
    report = memory.forget(query=query, dry_run=True, **ANA)
    assert sorted(item.memory for item in report.results) == sorted(gone)
    assert set(report.reasons.values()) <= {"matched"}


def test_by_query_words_count_together_only_where_they_stand_near_each_other(quick: Memory) -> None:
    near = "We had the plumber in. Then the cat was sick. The vet came by."
    quick.add(near, infer=False, **ANA)
    for query, taken in (("plumber cat", 1), ("cat vet", 1), ("plumber vet", 0)):
        assert len(quick.forget(query=query, threshold=1, dry_run=True, **ANA).results) == taken


def test_by_query_finds_words_in_a_store_without_an_index_of_words(
    quick: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none(*_: object) -> None:
        return None

    for text in ("User rows with Odile on Sundays", "User sold the piano"):
        quick.add(text, infer=False, **ANA)
    store = quick._asynchronous._engine.kernel.store
    monkeypatch.setattr(type(store), "keyword_search", none)
    (gone,) = quick.forget(query="Odile", threshold=1, **ANA).results
    assert gone.memory == "User rows with Odile on Sundays"


@pytest.mark.parametrize(
    ("said", "query", "gone"),
    [
        (("Ich wohne in Leipzig.", "Meine Tochter heißt Emma.", "Mein Auto ist rot."), "Vergiss meine Adresse", ""),
        (("Ich wohne in Leipzig.", "Meine Tochter heißt Emma.", "Mein Auto ist rot."), "meine Tochter", "Emma"),
        (("Vergangene Woche war ich in Rom.", "Ich habe ein Haus."), "Bitte vergiss mein Haus", "Haus"),
        (("Vivo en Sevilla.", "Mi hermana se llama Inés.", "Mi coche es rojo."), "¿cómo se llama mi hermana?", "Inés"),
    ],
)
def test_in_another_language_a_query_takes_only_what_shares_a_word_with_it(
    memory: Memory, said: tuple[str, ...], query: str, gone: str
) -> None:
    for text in said:
        memory.add(text, infer=False, **ANA)
    memory.forget(query=query, threshold=0.5, **ANA)
    left = {item.memory for item in memory.get_all(**ANA).results}
    assert left == {text for text in said if not gone or gone not in text}


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("meine Tochter", {"User is learning piano", "User lives in Leipzig"}),
        ("Wo wohne ich?", {"User is learning piano", "User's daughter is called Emma"}),
        ("Vergiss das bitte", {"User is learning piano", "User lives in Leipzig", "User's daughter is called Emma"}),
        ("Vergiss mein Klavier", {"User lives in Leipzig", "User's daughter is called Emma"}),
    ],
)
def test_the_facts_of_a_message_in_another_language_go_with_what_is_asked_for(
    memory: Memory, query: str, left: set[str]
) -> None:
    memory.add("Ich wohne in Leipzig. Meine Tochter heißt Emma.", **ANA)
    memory.add("Ich lerne Klavier.", **ANA)
    assert len(memory.get_all(**ANA).results) == 3
    memory.forget(query=query, threshold=0.5, **ANA)
    assert {item.memory for item in memory.get_all(**ANA).results} == left


@pytest.mark.parametrize(
    ("said", "asked", "left"),
    [
        (("Ich wohne in Köln.", "Mein Hund heißt Bruno."), "Vergiss bitte, dass ich in Köln wohne.", "Bruno"),
        (("Ich habe Schulden bei der Sparkasse.", "Mein Hund heißt Bruno."), "Lösch meine Schulden bitte.", "Bruno"),
        (("Mi hermana tiene epilepsia.", "Vivo en Madrid."), "Olvida que mi hermana tiene epilepsia.", "Madrid"),
        (("J'ai une dette à la banque.", "J'habite à Lyon."), "Oubliez ma dette, s'il vous plaît.", "Lyon"),
        (("Moro em Lisboa.", "Meu cachorro se chama Bruno."), "Esqueça que moro em Lisboa.", "Bruno"),
        (("Abito a Torino.", "Il mio cane si chiama Bruno."), "Dimentica che abito a Torino.", "Bruno"),
        (("Ich wohne in Köln.",), "Vergiss bitte, dass ich Klavier spiele.", "Köln"),
        (("Vivo en Madrid.",), "Olvida que toco el piano.", "Madrid"),
    ],
)
def test_a_request_told_in_another_language_takes_its_matter_and_leaves_nothing_of_itself(
    memory: Memory, said: tuple[str, ...], asked: str, left: str
) -> None:
    for text in said:
        memory.add(text, **ANA)
    memory.add(asked, **ANA)
    found = [item.memory for item in memory.search(" ".join((*said, asked)), threshold=0, **ANA).results]
    assert found and all(left in text for text in found)


@pytest.mark.parametrize(
    ("said", "asked", "left"),
    [
        (
            "My aunt's number is 555-0134, my uncle's is 555-0199.",
            "forget my aunt",
            "User's uncle's number is 555-0199",
        ),
        (
            "My aunt's number is 555-0134, my uncle's is 555-0199.",
            "please delete my aunt's phone number",
            "User's uncle's number is 555-0199",
        ),
        ("My aunt's pin is 4411 and my uncle's 9902.", "forget my aunt's pin", "User's uncle's pin is 9902"),
        ("Bea's address is 12 Mill Lane, Cy's is 9 Hill Road.", "forget Bea's address", "Cy's address is 9 Hill Road"),
        ("The shed code is 4411, the cellar code is 9902.", "forget the shed code", "The cellar code is 9902"),
        ("My aunt and my uncle both live in Cork.", "forget my aunt", "User's uncle lives in Cork"),
        ("My aunt and my uncle both live in Cork.", "forget that my aunt lives in Cork", "User's uncle lives in Cork"),
        ("Bea, Cy and Dot keep bees.", "forget Bea please", "Cy and Dot keep bees"),
        ("My aunt earns 40k and my uncle 52k.", "forget my aunt's salary", "User's uncle earns 52k"),
        ("My aunt has gout, and my uncle has eczema.", "forget my aunt's gout", "User's uncle has eczema"),
        ("My aunt and my uncle are twins.", "forget my aunt", None),
        ("My aunt has gout and my uncle has it too.", "forget my aunt", None),
    ],
)
def test_a_request_leaves_what_the_same_message_tells_of_somebody_else(
    memory: Memory, said: str, asked: str, left: str | None
) -> None:
    memory.add(said, **ANA)
    memory.add(asked, **ANA)
    assert [item.memory for item in memory.get_all(**ANA).results] == ([left] if left else [])
    found = [item.memory for item in memory.search(said, **ANA).results]
    assert found == ([left] if left else [])


def test_a_request_leaves_notes_about_somebody_else(memory: Memory) -> None:
    memory.add("My landlord is Mr Hale. My neighbour Pam's parcel, back door.", **ANA)
    kept = [item.memory for item in memory.get_all(kind="notes", **ANA).results]
    assert kept == ["My neighbour Pam's parcel, back door."]
    memory.add("Please forget who my landlord is.", **ANA)
    assert memory.get_all(**ANA).results == []
    assert [item.memory for item in memory.get_all(kind="notes", **ANA).results] == kept


def test_a_scope_and_nobody_else(quick: Memory) -> None:
    quick.add("secret of Ana", infer=False, **ANA)
    quick.add("secret of Bo", infer=False, user_id="bo")
    quick.forget(**ANA)
    assert quick.get_all(**ANA).results == []
    assert [item.memory for item in quick.get_all(user_id="bo").results] == ["secret of Bo"]


def test_without_erasing_it_can_be_undone(quick: Memory) -> None:
    id = quick.add("User hides gold", infer=False, **ANA).results[0].id
    report = quick.forget(id=id, erase=False)
    assert report.erase is False
    assert quick.get(id) is None
    quick.undo(quick.history(id)[-1].id)
    assert quick.get(id) is not None


def test_what_was_deleted_before_can_still_be_erased(quick: Memory, folder: Path) -> None:
    id = quick.add("User hides Xylophones", infer=False, **ANA).results[0].id
    quick.delete(id)
    quick.forget(id=id)
    quick.close()
    assert holding(folder, "Xylophones") == []


def test_delete_with_erase(quick: Memory, folder: Path) -> None:
    id = quick.add("User hides Xylophones", infer=False, **ANA).results[0].id
    quick.delete(id, erase=True)
    quick.close()
    assert holding(folder, "Xylophones") == []


def test_arguments(quick: Memory) -> None:
    with pytest.raises(ScopeError):
        quick.forget()
    with pytest.raises(PerdureError, match="not both"):
        quick.forget(id="00000000-0000-4000-8000-000000000000", query="x", **ANA)
    assert quick.forget(id="00000000-0000-4000-8000-000000000000").results == []


def test_another_process_holds_the_file(open_memory: Open, folder: Path) -> None:
    memory = open_memory(embedder={"provider": "hashed"})
    memory.add("User hides Xylophones", infer=False, **ANA)
    reader = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('BEGIN');"
            "c.execute('SELECT count(*) FROM sqlite_master').fetchall(); print('held', flush=True); sys.stdin.read()",
            str(folder / "memories.db"),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert reader.stdin is not None and reader.stdout is not None
    assert reader.stdout.readline() == "held\n"
    report = memory.forget(**ANA)
    assert report.pending, "the bytes cannot go while another process reads the file"
    assert memory.get_all(**ANA).results == []
    reader.communicate("")
    memory.close()
    assert holding(folder, "Xylophones") == []


@pytest.mark.parametrize("nothing", [{"query": None}, {"id": None}, {"query": None, "id": None}])
def test_a_variable_that_was_never_set_erases_nobody(quick: Memory, nothing: dict[str, None]) -> None:
    quick.add("User hides gold", infer=False, **ANA)
    with pytest.raises(InvalidInputError, match="names nothing: leave it out to forget the whole scope"):
        quick.forget(**nothing, **ANA)  # type: ignore[arg-type]  # that is what is tried
    assert len(quick.get_all(**ANA).results) == 1


@pytest.mark.parametrize("named", ["the whole scope", "the memory of this id"])
def test_a_threshold_without_a_query_erases_nothing(quick: Memory, named: str) -> None:
    (gold,) = quick.add("User hides gold", infer=False, **ANA).results
    given = ANA if named == "the whole scope" else {"id": gold.id}
    for dry_run in (False, True):
        with pytest.raises(InvalidInputError, match=f"add query, or leave threshold out to forget {named}") as refused:
            quick.forget(threshold=0.9, dry_run=dry_run, **given)
        assert (refused.value.field, refused.value.value) == ("threshold", 0.9)
    assert len(quick.get_all(**ANA).results) == 1


@pytest.mark.parametrize(
    ("query", "goes", "stays"),
    [
        ("mr business", "User's cat Mr Business is on a renal diet", "User's new job is busy, mr jones says"),
        ("universe", "User reads about the universe", "User studies at the university of leeds"),
        ("allergies", "User has an allergy to bees", "User lives in Faro"),
        ("walking", "User walks to work on Mondays", "User lives in Faro"),
    ],
)
def test_a_query_takes_a_word_in_any_number_or_tense_and_no_other_word(
    quick: Memory, query: str, goes: str, stays: str
) -> None:
    for text in (goes, stays):
        quick.add(text, infer=False, **ANA)
    quick.forget(query=query, **ANA)
    assert [item.memory for item in quick.get_all(**ANA).results] == [stays]
