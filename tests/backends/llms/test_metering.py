"""Meters: what is spent inside is counted once, by every meter that is open, and by no other."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from perdure.backends.shared.metering import Meter, cost, embedded, generated, metered
from perdure.domain.event import Usage


def test_nothing_spent_is_nothing() -> None:
    with metered() as meter:
        pass
    assert meter.usage == Usage() == Usage(0, 0, 0, 0, 0, 0.0)


def test_calls_add_up() -> None:
    with metered() as meter:
        generated("openai", "gpt-4o-mini", 1000, 100, 400)
        generated("openai", "gpt-4o-mini", 10, 1)
        embedded("openai", "text-embedding-3-small", 50)
    usage = meter.usage
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (2, 1010, 101)
    assert (usage.cached_tokens, usage.embedding_tokens) == (400, 50)
    assert usage.cost == pytest.approx((610 * 0.15 + 400 * 0.075 + 101 * 0.6 + 50 * 0.02) / 1e6)


def test_without_a_meter_nothing_happens() -> None:
    generated("openai", "gpt-4o-mini", 1000, 100)
    embedded("openai", "text-embedding-3-small", 50)
    with metered() as meter:
        pass
    generated("openai", "gpt-4o-mini", 1000, 100)
    assert meter.usage == Usage()


def test_an_inner_meter_counts_for_the_outer_one_too() -> None:
    with metered() as outer:
        generated("openai", "gpt-4o-mini", 1, 0)
        with metered() as inner:
            generated("openai", "gpt-4o-mini", 10, 0)
        generated("openai", "gpt-4o-mini", 100, 0)
    assert (outer.usage.input_tokens, inner.usage.input_tokens) == (111, 10)


def test_a_meter_closes_when_the_work_fails() -> None:
    with pytest.raises(RuntimeError), metered() as meter:
        generated("openai", "gpt-4o-mini", 1, 0)
        raise RuntimeError
    generated("openai", "gpt-4o-mini", 10, 0)
    assert meter.usage.input_tokens == 1


def test_tasks_and_their_children_have_meters_of_their_own() -> None:
    async def spend(tokens: int) -> None:
        await asyncio.sleep(0)
        generated("openai", "gpt-4o-mini", tokens, 0)

    async def one(tokens: int) -> int:
        with metered() as meter:
            await asyncio.gather(*(spend(tokens) for _ in range(5)))
            await asyncio.to_thread(generated, "openai", "gpt-4o-mini", tokens, 0)
        return meter.usage.input_tokens

    async def all_at_once() -> list[int]:
        return list(await asyncio.gather(*(one(tokens) for tokens in (1, 10, 100))))

    assert asyncio.run(all_at_once()) == [6, 60, 600]


def test_no_count_is_lost_between_threads() -> None:
    meter = Meter()
    threads = [
        threading.Thread(target=lambda: [meter.add(Usage(calls=1, input_tokens=2)) for _ in range(2000)])
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (meter.usage.calls, meter.usage.input_tokens) == (16_000, 32_000)


def test_one_unknown_price_makes_the_sum_unknown_and_the_tokens_stay() -> None:
    with metered() as meter:
        generated("openai", "gpt-4o-mini", 100, 1)
        generated("openai", "my-own-model", 100, 1)
    assert meter.usage == Usage(2, 200, 2, 0, 0, None)


def test_what_was_not_counted_costs_an_unknown_amount() -> None:
    for report in (lambda: generated("openai", "gpt-4o-mini", 0, 0), lambda: embedded("openai", "x", 0)):
        with metered() as meter:
            report()
        assert meter.usage.cost is None


@pytest.mark.parametrize(
    ("provider", "model", "dollars"),
    [
        ("openai", "gpt-4o-mini", 0.15 * 600 + 0.075 * 400 + 0.6 * 100),
        ("openai", "gpt-4o-mini-2024-07-18", 0.15 * 600 + 0.075 * 400 + 0.6 * 100),
        ("azure_openai", "gpt-4o-mini", 0.15 * 600 + 0.075 * 400 + 0.6 * 100),
        ("openai", "no-such-model", None),
        ("no-such-provider", "gpt-4o-mini", None),
        ("ollama", "llama3", None),
    ],
)
def test_prices(provider: str, model: str, dollars: float | None) -> None:
    price = cost(provider, model, 1000, 100, 400)
    assert price == (None if dollars is None else pytest.approx(dollars / 1e6))


@pytest.mark.parametrize("counts", [(-1, 0, 0), (10, -5, 0), (10, 0, 40)])
def test_impossible_counts_have_no_price(counts: tuple[int, int, int]) -> None:
    assert cost("openai", "gpt-4o-mini", *counts) is None


def test_without_the_package_of_prices_tokens_are_still_counted() -> None:
    probe = (
        "import sys; sys.modules['genai_prices'] = None\n"
        "from perdure.backends.shared.metering import generated, metered\n"
        "with metered() as meter: generated('openai', 'gpt-4o-mini', 7, 1)\n"
        "assert (meter.usage.input_tokens, meter.usage.cost) == (7, None), meter.usage\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", probe], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
