"""The soak of `benchmarks/gateway_soak.py`, in short: what it tells of twenty minutes holds of some seconds too."""

from __future__ import annotations

import sys

import pytest
from benchmarks.gateway.talkers import Tally
from benchmarks.gateway_soak import JUDGED, SPARE, Report, Sample, Talk, faults_of, run

pytestmark = pytest.mark.xdist_group("soak")
"""One worker: a run of its own for each test would take three times as long."""

LEAST = 12
"""Answers that come whole, however long that takes."""


@pytest.fixture(scope="module")
def report() -> Report:
    """One run: a restart, locked files, an embedder that fails, and faults in a sixth of the requests."""
    if sys.platform != "linux":
        pytest.skip("what a process takes is read from /proc")
    return run(Talk(seconds=2.0, users=4, pause=0.05, seed=3, search=True, least=LEAST))


def test_no_acknowledged_turn_is_lost_nor_kept_twice(report: Report) -> None:
    assert len(report.tally.whole) >= LEAST
    assert report.tally.begun, "some answers must have been broken off"
    assert report.lost == []


def test_whatever_the_model_answered_came_to_the_client(report: Report) -> None:
    assert report.restarts == 1
    assert report.faults.total() >= 2
    assert report.failed == {}


def test_nothing_is_left_open_when_the_clients_have_gone(report: Report) -> None:
    sockets, tasks = report.left
    assert sockets <= report.idle[0] + SPARE
    assert tasks <= report.idle[1] + SPARE
    assert report.status == 0
    assert faults_of(report) == []


def grown(judges: str, *, resident: float, indexes: float) -> list[str]:
    """What is said of a long run in which both grew by so many megabytes a minute, once the process was warm."""
    report = Report(JUDGED, Tally(), judges=judges)
    for minute in range(21):
        warm = max(0, minute - 10)
        of_indexes = 10 + indexes * warm
        report.samples.append(Sample(60.0 * minute, 100 + 20 * min(minute, 10) + resident * warm, of_indexes, 5, 9, 9))
    return faults_of(report)


def test_memory_that_grows_once_the_process_is_warm_is_a_fault() -> None:
    assert grown("resident", resident=0.5, indexes=0.0) == []
    assert grown("resident", resident=1.5, indexes=1.5) == ["memory grows by 1.50 MB a minute (resident)"]
    assert grown("others", resident=1.5, indexes=1.5) == []
    assert grown("others", resident=2.5, indexes=1.0) == ["memory grows by 1.50 MB a minute (others)"]
