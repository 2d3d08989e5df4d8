"""Retries: how often, after how long, and what is never tried again."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.backends.http.service import LONGEST_WAIT, TRANSIENT, RetryLater, retry_after, with_retry
from perdure.domain.errors import EmbeddingError, LLMError, PerdureError

NOW = datetime(2026, 11, 22, 12, 0, 0, tzinfo=UTC)


class Calls:
    """Fails with the given errors in turn, then answers; notes the waits between."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.count = 0
        self.waits: list[float] = []

    async def __call__(self) -> str:
        self.count += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    def run(self, **options: Any) -> str:
        return asyncio.run(with_retry(self, sleep=self.sleep, **options))


def busy(after: float | None = None) -> RetryLater:
    return RetryLater(LLMError("busy", code="rate_limit"), after)


def test_an_answer_at_once_waits_for_nothing() -> None:
    calls = Calls()
    assert calls.run() == "answer"
    assert (calls.count, calls.waits) == (1, [])


def test_the_wait_doubles_from_a_second() -> None:
    calls = Calls(busy(), busy(), busy())
    assert calls.run() == "answer"
    assert (calls.count, calls.waits) == (4, [1.0, 2.0, 4.0])


def test_the_error_after_the_last_attempt_is_the_services() -> None:
    last = LLMError("still busy", code="server")
    calls = Calls(busy(), busy(), RetryLater(last))
    with pytest.raises(LLMError) as caught:
        calls.run(retries=2)
    assert caught.value is last
    assert (calls.count, calls.waits) == (3, [1.0, 2.0])


def test_no_retries_is_one_attempt() -> None:
    calls = Calls(busy())
    with pytest.raises(LLMError, match="busy"):
        calls.run(retries=0)
    assert (calls.count, calls.waits) == (1, [])


@pytest.mark.parametrize("code", sorted(TRANSIENT))
def test_a_transient_code_is_enough(code: str) -> None:
    calls = Calls(EmbeddingError("passing", code=code))
    assert calls.run() == "answer"
    assert calls.waits == [1.0]


@pytest.mark.parametrize(
    "error",
    [
        LLMError("wrong"),
        LLMError("slow", code="timeout"),
        LLMError("no", code="authentication"),
        LLMError("empty", code="quota"),
        PerdureError("x"),
        ValueError("ours"),
    ],
    ids=str,
)
def test_what_does_not_pass_by_itself_is_raised_at_once(error: Exception) -> None:
    calls = Calls(busy(), error)
    with pytest.raises(type(error)) as caught:
        calls.run()
    assert caught.value is error
    assert calls.count == 2


def test_what_the_service_asks_for_counts_instead_of_the_doubling() -> None:
    calls = Calls(busy(5.0), busy(), busy(0.0))
    assert calls.run() == "answer"
    assert calls.waits == [5.0, 2.0, 0.0]


def test_waits_of_ones_own_are_bounded_and_longer_ones_of_the_services_are_not_begun() -> None:
    calls = Calls(*(busy() for _ in range(9)))
    calls.run(retries=9)
    assert max(calls.waits) == LONGEST_WAIT and calls.waits[-3:] == [LONGEST_WAIT] * 3
    calls = Calls(busy(LONGEST_WAIT), busy(LONGEST_WAIT + 1))
    with pytest.raises(LLMError, match="busy"):
        calls.run()
    assert calls.waits == [LONGEST_WAIT]


def test_cancelling_ends_a_wait() -> None:
    async def work() -> int:
        calls = Calls(busy(), busy())
        task = asyncio.create_task(with_retry(calls, base_delay=60))
        while not calls.count:
            await asyncio.sleep(0)
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return calls.count

    assert asyncio.run(work()) == 1


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0),
        (" 0 ", 0.0),
        ("1.5", 1.5),
        ("-3", 0.0),
        ("Sun, 22 Nov 2026 12:00:30 GMT", 30.0),
        ("Sun, 22 Nov 2026 11:00:00 GMT", 0.0),
        ("Sun, 22 Nov 2026 13:00:30 +0100", 30.0),
        ("Sun, 22 Nov 2026 12:00:30 -0000", 30.0),
        ("Sunday, 22-Nov-26 12:00:30 GMT", 30.0),
        ("", None),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("Sun, 99 Nov 2026 12:00:00 GMT", None),
        ("22 Nov", None),
    ],
)
def test_retry_after(text: str, seconds: float | None) -> None:
    assert retry_after({"retry-after": text}, NOW) == seconds
    assert retry_after({}, NOW) is None


@given(st.datetimes(min_value=datetime(1990, 1, 1), max_value=datetime(2090, 1, 1), timezones=st.just(UTC)))
def test_any_date_is_read_to_the_second(moment: datetime) -> None:
    moment = moment.replace(microsecond=0)
    expected = max(0.0, (moment - NOW).total_seconds())
    assert retry_after({"retry-after": format_datetime(moment, usegmt=True)}, NOW) == expected


@given(st.text() | st.from_regex(r"[A-Za-z]{0,4},? ?[0-9:+ -]{0,30}(GMT|UTC|Z)?"))
def test_no_header_is_too_strange(text: str) -> None:
    seconds = retry_after({"retry-after": text}, NOW)
    assert seconds is None or seconds >= 0
