"""Blocking work while the program ends: what runs later hears of it as of a closed memory, without a traceback."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from perdure.backends import blocking
from perdure.domain.errors import ClosedError


def test_work_that_cannot_start_any_more_is_as_on_a_closed_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    monkeypatch.setattr(blocking, "_pool", pool)
    with pytest.raises(ClosedError, match="ending"):
        asyncio.run(blocking.run_blocking(int))


def test_an_error_of_the_work_itself_stays_what_it_is() -> None:
    def work() -> None:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        asyncio.run(blocking.run_blocking(work))
