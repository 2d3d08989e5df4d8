"""Where blocking work runs: one pool of threads for all of perdure, beside the event loop.

A pool of our own, because asyncio's default one has few threads on small machines, and a long encoding must not keep
a short read waiting. Its idle threads never hold up the interpreter's exit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_POOL = ThreadPoolExecutor(max_workers=32, thread_name_prefix="perdure")


async def run_blocking(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run the function in a thread and await its result; a cancelled caller does not stop a function under way."""
    return await asyncio.get_running_loop().run_in_executor(_POOL, partial(function, *args, **kwargs))
