"""One policy value, three presets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.fact import Fact
from perdure.domain.message import Message
from perdure.pipeline.curation.chat import FACT_API, PROXY, ROUTER, is_due, limit, select


def talk(turns: int) -> list[Message]:
    return [Message(role, f"{role} {turn}") for turn in range(turns) for role in ("user", "assistant")]


@pytest.mark.covers("U9")
def test_fact_api_reads_everything() -> None:
    assert select(talk(20), FACT_API).positions == tuple(range(40))


@pytest.mark.covers("V32", "V33")
def test_router_reads_the_last_fifteen_turns_every_ten() -> None:
    messages = talk(20)
    assert messages[select(messages, ROUTER).positions[0]].content == "user 5"
    assert [turn for turn in range(31) if is_due(turn, ROUTER)] == [10, 20, 30]
    assert select(talk(3), ROUTER).positions == tuple(range(6))


@pytest.mark.covers("K39", "K40")
def test_proxy_reads_the_latest_user_message_and_keeps_three_facts() -> None:
    messages = talk(3)
    selection = select(messages, PROXY)
    assert [messages[position].content for position in selection.positions] == ["user 2"]
    assert len(selection.context) == 4
    facts = [Fact(text=str(number), confidence=confidence) for number, confidence in enumerate((0.5, 0.9, 0.7, 0.9))]
    assert [fact.text for fact in limit(facts, PROXY)] == ["1", "2", "3"]
    assert limit(facts, FACT_API) == facts
    assert select([], PROXY).positions == ()


@given(st.lists(st.sampled_from(["user", "assistant", "system"]), max_size=40))
def test_context_always_stands_before_what_is_read(roles: list[str]) -> None:
    messages = [Message(role, "x") for role in roles]
    for policy in (FACT_API, ROUTER, PROXY):
        selection = select(messages, policy)
        assert set(selection.positions).isdisjoint(selection.context)
        assert not selection.positions or max(selection.context, default=-1) < min(selection.positions)
