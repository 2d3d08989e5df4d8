"""Patterns: what they answer is what `re` answers, and none is compiled before its first use."""

from __future__ import annotations

import gc
import importlib
import pkgutil
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure import pipeline
from perdure.domain.text.pattern import Pattern

WORDS = r"(?P<first>[ab]+)-?(\d)?"


@given(st.text(alphabet="abB-12 ", max_size=30), st.sampled_from([0, re.IGNORECASE]))
def test_a_pattern_answers_as_the_compiled_one(text: str, flags: int) -> None:
    mine, known = Pattern(WORDS, flags), re.compile(WORDS, flags)
    for name in ("search", "match", "fullmatch"):
        found, expected = getattr(mine, name)(text), getattr(known, name)(text)
        assert (found and (found.span(), found.groupdict())) == (expected and (expected.span(), expected.groupdict()))
    assert [each.span() for each in mine.finditer(text)] == [each.span() for each in known.finditer(text)]
    assert mine.findall(text) == known.findall(text)
    assert mine.split(text, 2) == known.split(text, 2)
    assert mine.sub(r"<\g<first>>", text, count=1) == known.sub(r"<\g<first>>", text, count=1)
    assert mine.subn("x", text) == known.subn("x", text)


def test_nothing_is_compiled_before_its_first_use() -> None:
    pattern = Pattern("(")  # no pattern at all
    assert pattern.pattern == "("
    with pytest.raises(re.error):
        pattern.search("x")


def test_every_pattern_of_the_pipeline_can_be_compiled() -> None:
    for each in pkgutil.walk_packages(pipeline.__path__, f"{pipeline.__name__}."):
        importlib.import_module(each.name)
    gc.unfreeze()  # what was loaded while tests were collected (tests/conftest.py) is listed again
    patterns = [each for each in gc.get_objects() if isinstance(each, Pattern) and each.pattern != "("]
    gc.freeze()
    assert len(patterns) > 400, "the patterns of the steps are all here"
    assert all(each.compiled.pattern == each.pattern for each in patterns)


def test_no_step_compiles_where_it_stands() -> None:
    """A call of `re.compile` at the left margin would be paid by every program that starts."""
    steps = Path(perdure.__file__).parent / "pipeline"
    standing = re.compile(r"^[A-Z_][A-Za-z0-9_]*(?:: [^=\n]*)? = [^\n]*re\.compile\(", re.MULTILINE)
    assert standing.search("_A = re.compile(x)")
    assert [str(path) for path in sorted(steps.rglob("*.py")) if standing.search(path.read_text("utf-8"))] == []
