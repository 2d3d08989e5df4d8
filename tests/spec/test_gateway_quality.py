"""The majority of what is injected bears on the message, and of what is kept is right, by the labelled talks."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SOURCE = Path(__file__).parents[2] / "benchmarks" / "gateway_quality.py"
SOME = slice(0, None, 5)
"""Every fifth conversation: the whole fifty are the benchmark's."""


@pytest.fixture(scope="module")
def quality() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gateway_quality", SOURCE)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules["gateway_quality"] = found  # its dataclasses look themselves up there
    spec.loader.exec_module(found)
    return found


@pytest.fixture(scope="module")
def conversations(quality: ModuleType) -> list[Any]:
    return list(quality.read(quality.DATA.read_text(encoding="utf-8")))


@pytest.mark.covers("V64")
@pytest.mark.covers("V64")
def test_there_are_fifty_labelled_conversations(conversations: list[Any]) -> None:
    assert len(conversations) == 50 == len({each.name for each in conversations})
    for each in conversations:
        assert each.facts and each.questions and all(said for turns in each.sessions for said, _ in turns), each.name
        assert all(wanted <= set(range(1, len(each.facts) + 1)) for _, wanted in each.questions), each.name
        said = " ".join(text for turns in each.sessions for text, _ in turns)
        (first, *_) = each.facts
        assert any(pattern.search(said) for pattern in first), f"{each.name}: a label speaks of what was said"


@pytest.mark.covers("V64")
@pytest.mark.covers("V64")
def test_a_label_is_right_where_all_its_words_stand(quality: ModuleType) -> None:
    (one,) = quality.read("= a\nU: I pay 900 euros\nA: I see\nF: pay/pays, 900\nF: dog\nQ: How much? => 1\n")
    assert one.sessions == [[("I pay 900 euros", "I see")]] and one.questions == [("How much?", {1})]
    assert one.facts_of("User pays 900 euros") == {1} and one.facts_of("User pays 90 euros") == set()


@pytest.mark.covers("V64")
@pytest.mark.covers("V64")
@pytest.mark.parametrize("dialect", ["responses", "chat"])
def test_most_of_what_is_kept_is_right_and_most_of_what_is_injected_bears(
    quality: ModuleType, conversations: list[Any], dialect: str
) -> None:
    some = islice(conversations, SOME.start, SOME.stop, SOME.step)
    gate, plain = asyncio.run(quality.measured(dialect, some))
    assert gate.kept and gate.right * 2 > gate.kept, gate.row(dialect)
    assert gate.found * 2 > gate.labels, gate.row(dialect)
    assert gate.injected and gate.answered * 2 > gate.questions, gate.row(dialect)
    if dialect == "responses":  # 002 gives each message its five best, whatever bears on it
        assert gate.bearing * 2 > gate.injected, gate.row(dialect)
    assert plain.questions == gate.questions
