"""Bounds: the size of a body, with and without its length, and how often one key or address may ask."""

from __future__ import annotations

import math
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.frontends.server.middleware.rate_limit import MAX_BUCKETS, RateLimit, address_name
from tests.frontends.server.probes import probes
from tests.frontends.server.running import Running, bearer, running

MOST = 2_000


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("narrow"), settings={"max_body_bytes": MOST}, routes=probes()) as found:
        yield found


def body(size: int) -> bytes:
    frame = b'{"count": 1, "text": ""}'
    return frame[:-2] + b"x" * (size - len(frame)) + frame[-2:]


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
@pytest.mark.parametrize(("size", "status"), [(MOST, 200), (MOST + 1, 413), (40 * MOST, 413)])
def test_a_body_that_is_too_large_is_413(narrow: Running, chunked: bool, size: int, status: int) -> None:
    data = body(size)
    pieces = (data[start : start + 500] for start in range(0, size, 500))
    answer = narrow.client.post(
        "/v1/memories/probe", content=pieces if chunked else data, headers={"Content-Type": "application/json"}
    )
    assert ("content-length" in answer.request.headers) is not chunked
    assert answer.status_code == status
    if status == 413:
        assert answer.json()["code"] == "too_large"
        assert str(MOST) in answer.json()["detail"]


def test_a_body_that_only_says_that_it_is_large_is_not_waited_for(narrow: Running) -> None:
    host, port = narrow.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        head = "POST /v1/memories/probe HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: 99999999999\r\n\r\n".encode())
        assert connection.recv(1000).startswith(b"HTTP/1.1 413")


# ------------------------------------------------------------------ rate


@pytest.mark.parametrize("probed", [{"settings": {"rate_per_minute": 3}}], indirect=True)
def test_each_key_and_each_address_has_its_own_rate(probed: Running) -> None:
    one, two = bearer(probed.key("one")), bearer(probed.key("two"))

    def ask(headers: dict[str, str]) -> int:
        return probed.client.get("/probe/caller", headers=headers).status_code

    assert [ask(one) for _ in range(4)] == [200, 200, 200, 429]
    assert ask(two) == 200, "another key is not held back"
    assert [ask(bearer("perdure_guess")) for _ in range(4)] == [401, 401, 401, 429], "guessing is counted"
    assert ask(two) == 200, "guesses of an address do not hold back its keys"
    refused = probed.client.get("/probe/caller", headers=one)
    assert refused.json()["code"] == "rate_limited"
    assert 1 <= int(refused.headers["Retry-After"]) <= 20
    assert refused.headers["X-RateLimit-Limit"] == "3"
    assert refused.headers["X-RateLimit-Remaining"] == "0"
    assert 1 <= int(refused.headers["X-RateLimit-Reset"]) <= 60
    told = probed.client.get("/probe/caller", headers=two)
    assert (told.status_code, told.headers["X-RateLimit-Remaining"]) == (200, "0")
    assert [probed.client.get("/healthz").status_code for _ in range(5)] == [200] * 5, "health is not counted"


def test_without_a_rate_nothing_is_counted(probed: Running) -> None:
    answer = probed.client.get("/probe/caller")
    assert "X-RateLimit-Limit" not in answer.headers


@given(st.integers(1, 50), st.lists(st.floats(0, 90), max_size=200))
def test_no_minute_takes_more_than_twice_the_limit_and_retry_after_is_kept(limit: int, waits: list[float]) -> None:
    """A full bucket and what refills in a minute: the bound of a token bucket; and a promise is kept to the second."""
    now = 0.0
    rate = RateLimit(limit, clock=lambda: now)
    taken: list[float] = []
    for wait in waits:
        now += wait
        allowance = rate.take("one")
        assert allowance is not None
        assert 0 <= allowance.remaining <= limit
        if allowance.retry_after == 0:
            taken.append(now)
        else:
            now += allowance.retry_after
            again = rate.take("one")
            assert again is not None
            assert again.retry_after == 0
            taken.append(now)
    for start in taken:
        assert sum(start <= moment < start + 60 for moment in taken) <= 2 * limit


def test_what_is_remembered_is_bounded() -> None:
    rate = RateLimit(1, clock=lambda: 0.0)
    for number in range(MAX_BUCKETS + 500):
        rate.take(f"address {number}")
    assert len(rate) == MAX_BUCKETS


def test_a_bucket_is_full_again_after_a_minute() -> None:
    now = 0.0
    rate = RateLimit(60, clock=lambda: now)
    for _ in range(60):
        rate.take("one")
    empty = rate.take("one")
    assert empty is not None
    assert (empty.remaining, empty.retry_after) == (0, 1)
    now = math.nextafter(60.0, 61.0)
    full = rate.take("one")
    assert full is not None
    assert full.remaining == 59


def test_one_network_of_ipv6_is_one_address() -> None:
    assert address_name("2001:db8::1") == address_name("2001:db8::ffff:1") != address_name("2001:db8:0:1::1")
    assert address_name("10.0.0.1") != address_name("10.0.0.2")
    assert address_name(None) == address_name(None)


def test_nothing_is_limited_before_it_is_asked_for(tmp_path: Path) -> None:
    assert RateLimit(0).take("one") is None
