"""Rate limits per key or address, as token buckets that refill evenly over a minute."""

from __future__ import annotations

import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

MAX_BUCKETS = 10_000  # maximum buckets; beyond it the least recently used are dropped
MINUTE = 60.0
_ROUNDED = 1e-9  # rounding tolerance, in requests: a client that waited `retry_after` seconds is served


@dataclass(frozen=True, slots=True)
class Allowance:
    """The state of one bucket after a request."""

    limit: int
    remaining: int
    reset: int  # seconds until the bucket is full
    retry_after: int  # seconds until the next request is accepted; 0 if this one is

    def headers(self) -> dict[str, str]:
        """The allowance as the headers of a response."""
        return {
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(self.remaining),
            "X-RateLimit-Reset": str(self.reset),
        }


class RateLimit:
    """At most `per_minute` requests a minute of each name, at once or spread; 0 counts nothing."""

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = per_minute
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> Allowance | None:
        """Count one request of a name; None if there is no limit."""
        if self._limit == 0:
            return None
        now = self._clock()
        left, then = self._buckets.pop(name, (float(self._limit), now))
        left = min(float(self._limit), left + (now - then) * self._limit / MINUTE)
        taken = left >= 1.0 - _ROUNDED
        left = max(0.0, left - 1.0) if taken else left
        self._buckets[name] = (left, now)
        while len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        per_request = MINUTE / self._limit
        return Allowance(
            limit=self._limit,
            remaining=int(left),
            reset=math.ceil((self._limit - left) * per_request),
            retry_after=0 if taken else max(1, math.ceil((1.0 - left) * per_request)),
        )

    def __len__(self) -> int:
        return len(self._buckets)


def address_name(host: str | None) -> str:
    """The name that requests of an address are counted under; one network of IPv6 is one address."""
    try:
        address = ipaddress.ip_address(host or "")
    except ValueError:
        return f"address {host}"
    if address.version == 6:
        return f"address {ipaddress.ip_network((address, 64), strict=False)}"
    return f"address {address}"
