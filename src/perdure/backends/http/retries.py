"""Retry a service after a transient failure (spec 000 §14.2).

This is the only layer of retries: the vendors' clients are told to make none of their own.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from perdure.domain.errors import PerdureError

T = TypeVar("T")

TRANSIENT = frozenset({"rate_limit", "server", "connection"})
"""Codes of transient errors. A timeout is not among them: the caller has waited long enough."""
LONGEST_WAIT = 60.0
"""Seconds between two attempts at most; a service that asks for more is not asked again."""


class RetryLater(Exception):
    """Carries a transient error out of a call, with the seconds that the service asks to wait, if it does."""

    def __init__(self, error: PerdureError, after: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.after = after


async def with_retry(
    call: Callable[[], Awaitable[T]],
    *,
    retries: int = 3,
    base_delay: float = 1.0,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> T:
    """Await a call, with up to `retries` further attempts after transient failures; any other is raised at once.

    Transient is a RetryLater, or a PerdureError whose code is in TRANSIENT. The wait before attempt n + 2 is
    base_delay * 2**n seconds (000 §14.2) and never more than LONGEST_WAIT, or what the service asks for. After the
    last attempt, or where the service asks for more than LONGEST_WAIT, its PerdureError is raised. Cancellation passes
    through, also while waiting.
    """
    attempt = 0
    while True:
        try:
            return await call()
        except RetryLater as later:
            error, after = later.error, later.after
        except PerdureError as failure:
            error, after = failure, None
            if failure.code not in TRANSIENT:
                raise
        wait = min(base_delay * 2.0**attempt, LONGEST_WAIT) if after is None else after
        if attempt >= retries or wait > LONGEST_WAIT:
            raise error
        await sleep(wait)
        attempt += 1


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """The seconds that `Retry-After` asks for, at least 0; None without the header or where it cannot be read.

    A number of seconds or an HTTP date (RFC 9110 §10.2.3). `headers` must find "retry-after" in lower case.
    """
    text = (headers.get("retry-after") or "").strip()
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        return _until(text, now or datetime.now(UTC))
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _until(text: str, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:  # "-0000": in UTC, but from nowhere in particular
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())
