"""Says with every write what it took from language models and embedders."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import wraps
from typing import Any, ParamSpec

from perdure.backends.metering import metered
from perdure.domain.event import AddResult

P = ParamSpec("P")


def counted(method: Callable[P, Coroutine[Any, Any, AddResult]]) -> Callable[P, Coroutine[Any, Any, AddResult]]:
    """Lay the usage of the call into its result."""

    @wraps(method)
    async def with_usage(*args: P.args, **kwargs: P.kwargs) -> AddResult:
        with metered() as meter:
            result = await method(*args, **kwargs)
        return replace(result, usage=meter.usage)

    return with_usage
