"""How often one key or address may ask: a bucket for each that refills evenly over a minute."""

from __future__ import annotations

import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

MAX_BUCKETS = 10_000
"""Keys and addresses that are remembered; of more, those go that have not asked for longest."""
MINUTE = 60.0
_ROUNDED = 1e-9
"""Share of a request that a sum of seconds may lack: who waited as long as was said has waited long enough."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What is left to one who asks."""

    limit: int
    remaining: int
    reset: int
    """Seconds until nothing is counted any more."""
    retry_after: int
    """Seconds until the next request is taken; 0 where this one is."""

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
        """Count one request of a name; None where nothing is limited."""
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
