"""V77 over real HTTP: a question of a time gone by is answered by what was told then, in either API."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.frontends.gateway.conftest import gateway_to, knowing
from tests.frontends.gateway.dialects import Speaker
from tests.frontends.gateway.items.test_read import aged, hits
from tests.frontends.gateway.upstream import Upstream
from tests.frontends.server.running import Running

pytestmark = pytest.mark.covers("V77")

DIALECTS = pytest.mark.parametrize("dialect", ["chat", "responses"])
SINK, SINTRA, PARIS = "User repaired the kitchen sink", "User went hiking in Sintra with Rita", "User flew to Paris"


@pytest.fixture(scope="module")
def gateway(model: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Words mean something here."""
    folder = tmp_path_factory.mktemp("memory")
    with gateway_to(
        folder, model.url, gateway=knowing(model, {"auto_store": False}), embedder={"provider": "minilm"}
    ) as found:
        yield found


def last_week() -> float:
    """Days since the Wednesday of last week."""
    return datetime.now(UTC).weekday() + 5.0


@pytest.mark.covers("V77")
@DIALECTS
def test_what_was_told_last_week_answers_what_i_did_last_week(gateway: Running, model: Upstream, dialect: str) -> None:
    ana = Speaker(gateway, model, dialect)
    aged(ana, SINTRA, last_week())
    aged(ana, SINK, 0)
    aged(ana, PARIS, 200)
    told = ana.asked("What did I do last week?")
    assert SINTRA in told
    if dialect == "responses":
        assert SINK not in told and PARIS not in told, "they are not of that time, and 001 has a threshold"
    else:
        assert all(told.index(SINTRA) < told.index(each) for each in (SINK, PARIS)), "and 002 has none"


@pytest.mark.covers("V77")
@DIALECTS
def test_a_month_that_is_named_is_the_last_one_of_its_name(gateway: Running, model: Upstream, dialect: str) -> None:
    ana = Speaker(gateway, model, dialect)
    then = datetime.now(UTC) - timedelta(days=100)
    aged(ana, PARIS, 100)
    aged(ana, SINTRA, 1)
    told = ana.asked(f"Where did I travel in {then:%B}?")
    assert PARIS in told and (SINTRA not in told or told.index(PARIS) < told.index(SINTRA))


@pytest.mark.covers("V77")
def test_it_is_looked_for_among_many_that_are_nearer_in_meaning(gateway: Running, model: Upstream) -> None:
    ana = Speaker(gateway, model, "chat")
    for number in range(20):
        aged(ana, f"User did some task of number {number}", 60 + number)
    aged(ana, SINK, last_week())
    assert hits(ana, "What did I do last week?")[0][0] == SINK


@pytest.mark.covers("V77")
def test_time_that_is_not_over_and_no_time_at_all_change_nothing(gateway: Running, model: Upstream) -> None:
    ana = Speaker(gateway, model, "responses")
    aged(ana, SINK, 0)
    for question in ("What shall I cook for us today?", "What shall I cook for us next week?", "What may I cook?"):
        assert SINK not in ana.asked(question)


@pytest.mark.covers("V77")
def test_a_subject_still_counts(gateway: Running, model: Upstream) -> None:
    ana = Speaker(gateway, model, "responses")
    aged(ana, "User's budget for the Hawaii trip is $10,000", last_week())
    aged(ana, "User likes green tea", last_week())
    told = ana.asked("What did I say about the Hawaii trip last week?")
    assert "Hawaii trip is" in told
    assert "green tea" not in told or told.index("Hawaii trip is") < told.index("green tea")
