"""Names: proper nouns of a text, and which known names a question names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.pipeline.retrieval.names import named, proper_nouns


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("I moved to New York with Ana.", ["New York", "Ana"]),
        ("New York is big", ["New York"]),
        ("Tokyo is big. I love Tokyo!", ["Tokyo"]),
        ("Visiting Rome was fun. Nice weather.", ["Rome"]),
        ("Did Caroline's dog eat Harry Potter?", ["Caroline", "Harry Potter"]),
        ("Anna's Rex met Dr. Smith at the Bank of America", ["Anna", "Rex", "Smith", "Bank of America"]),
        ("I use Visual Studio Code, YouTube and an iPhone", ["Visual Studio Code", "YouTube", "iPhone"]),
        ("YouTube is fun", ["YouTube"]),
        ("She moved to São Paulo, São Paulo is warm", ["São Paulo"]),
        ("On Monday in May I'll rest, I think. OK?", []),
        ("I AM SO HAPPY FOR ANNA", []),
        ("- Apples\n- Pears", []),
        ("what about new york", []),
        ("", []),
    ],
)
def test_proper_nouns(text: str, names: list[str]) -> None:
    assert proper_nouns(text) == names


@given(st.text(max_size=120))
def test_proper_nouns_of_any_text_are_in_it_and_have_a_capital(text: str) -> None:
    for name in proper_nouns(text):
        assert name in text
        assert any(letter.isupper() for letter in name)


@given(st.text(alphabet="abcdefghij ,.!?\n", max_size=80))
def test_text_in_small_letters_has_none_but_those_put_in(text: str) -> None:
    assert proper_nouns(text) == []
    assert proper_nouns(f"{text} we saw Lisbon") == ["Lisbon"]


@pytest.mark.parametrize(
    ("question", "names", "found"),
    [
        ("What did caroline do?", {"Caroline", "Melanie"}, {"Caroline"}),
        ("What is John's job?", {"John", "Jon", "Jo"}, {"John"}),
        ("what is JOHN’S job", {"John"}, {"John"}),
        ("Did Ana tell Bob?", {"Ana", "Bob", "Eve"}, {"Ana", "Bob"}),
        ("Is Ana here?", {"Ana López", "Ana Ruiz"}, {"Ana López", "Ana Ruiz"}),
        ("Is Ana Lopez here?", {"Ana López"}, {"Ana López"}),
        ("Is Lopez here?", {"Ana Lopez"}, set()),
        ("Where is Joanna?", {"Jo", "Anna"}, set()),
        ("What will Bob do?", {"Will", "Bob"}, {"Bob"}),
        ("Will it rain?", {"Will"}, set()),
        ("May I mark this?", {"May", "Mark"}, set()),
        ("WHAT WILL HE DO?", {"Will"}, set()),
        ("Where is Will?", {"Will"}, {"Will"}),
        ("Will's dog, what is it called?", {"Will"}, {"Will"}),
        ("Mark is where?", {"Mark"}, {"Mark"}),
        ("李雷喜欢什么?", {"李雷", "王芳"}, {"李雷"}),
        ("anything", {"", " ", "?"}, set()),
    ],
)
def test_named(question: str, names: set[str], found: set[str]) -> None:
    assert named(question, names) == found


@given(st.text(max_size=60), st.lists(st.text(max_size=12), max_size=4))
def test_named_gives_only_names_that_it_was_given(question: str, names: list[str]) -> None:
    assert named(question, names) <= set(names)


@given(
    st.sampled_from(["Caroline", "Ana María", "O'Brien", "Zoë", "Jean-Luc"]), st.text(alphabet="bdfg ,.", max_size=20)
)
def test_a_name_between_other_words_is_found_in_any_case(name: str, other: str) -> None:
    for written in (name, name.lower(), name.upper(), f"{name}'s"):
        assert named(f"{other} {written} {other}", [name]) == {name}
