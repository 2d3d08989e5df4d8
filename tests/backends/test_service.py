"""What every service behind an address shares, whatever its vendor: settings, words for failures, clients and loops."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest
from pydantic import Field, SecretStr

from perdure.backends.extras import extra_line
from perdure.backends.http.service import (
    NO_KEY,
    RefusedError,
    RetryLater,
    Service,
    ServiceSettings,
    code_of,
    host_of,
    key_or_fail,
    readable,
    secret_from,
    text_from,
)
from perdure.domain.errors import ConfigError, DependencyError, EmbeddingError, LLMError

SECRET = "sk-this-is-the-key-0123456789"


class Settings(ServiceSettings):
    api_key: SecretStr | None = Field(default_factory=lambda: secret_from("A_KEY", "ANOTHER_KEY"))
    base_url: str | None = Field(default_factory=lambda: text_from("AN_ADDRESS"))


class Failed(Exception):
    """The vendor's own exception; `meaning` is what it means."""

    def __init__(self, meaning: Exception | None = None) -> None:
        super().__init__(f"a vendor's words with {SECRET}")
        self.meaning = meaning


class Client:
    """A vendor's client, without a wire: the providers' own tests have the wire."""

    def __init__(self) -> None:
        self.closed = False
        self.thread = threading.current_thread()
        self.loops: list[Any] = []


class Vendor(Service[Client]):
    sdk: ClassVar[str] = "json"

    def __init__(self, settings: ServiceSettings | None = None, **options: Any) -> None:
        self.clients: list[Client] = []
        settings = settings or Settings(retries=2, retry_delay=0.0)
        super().__init__("vendor", settings, self._new, options.get("failure", LLMError), SECRET)

    def _new(self, sdk: Any) -> Client:
        assert sdk.__name__ == "json"
        self.clients.append(Client())
        return self.clients[-1]

    def _translated(self, sdk: Any, error: Exception) -> Exception | None:
        return error.meaning if isinstance(error, Failed) else None

    async def _closed(self, client: Client) -> None:
        client.closed = True


def told(status: int, **options: Any) -> Exception:
    words, code = options.pop("said", "words"), options.pop("code", code_of(status))
    return Vendor()._of_status(status, words, code=code, **options)


# ------------------------------------------------------------------ settings


def test_none_means_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANOTHER_KEY", "  from-environment \n")
    settings = Settings.model_validate({"api_key": None, "timeout": None})
    assert settings.api_key is not None and settings.api_key.get_secret_value() == "from-environment"
    assert settings.timeout == 60.0


def test_the_first_variable_that_is_not_empty_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "  ")
    assert secret_from("A_KEY") is None and text_from("A_KEY") is None
    monkeypatch.setenv("ANOTHER_KEY", "second")
    assert text_from("A_KEY", "ANOTHER_KEY") == "second"


@pytest.mark.parametrize(
    "values",
    [
        {"timeout": 0}, {"timeout": -1}, {"timeout": 3601}, {"timeout": float("nan")}, {"retries": -1},
        {"retries": 11}, {"retry_delay": -0.1}, {"retry_delay": 61}, {"unknown": 1}, {"base_url": "host"},
        {"base_url": "http://host:0/"}, {"base_url": "http://host:port/"}, {"base_url": "file:///x"},
        {"api_key": "a\nb"}, {"api_key": "a b"}, {"api_key": "schlüssel"}, {"api_key": "a\x00"},
    ],
)  # fmt: skip
def test_wrong_settings_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError) as caught:
        Settings.model_validate(values)
    assert "schlüssel" not in str(caught.value)


def test_the_environments_values_are_checked_like_any_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "one\ntwo")
    with pytest.raises(ValueError, match="api_key"):
        Settings()
    monkeypatch.setenv("A_KEY", "one")
    monkeypatch.setenv("AN_ADDRESS", "nowhere")
    with pytest.raises(ValueError, match="base_url"):
        Settings()


def test_settings_show_no_key() -> None:
    settings = Settings(api_key=SecretStr(SECRET))
    assert SECRET not in repr(settings) and SECRET not in str(settings.model_dump())


def test_key_or_fail() -> None:
    where = {"section": "llm", "variable": "A_KEY"}
    assert key_or_fail(SecretStr("k"), needed=True, **where) == "k"
    assert key_or_fail(None, needed=False, **where) == NO_KEY
    with pytest.raises(
        ConfigError, match="llm.config.api_key is missing: give it there or in A_KEY, or pray"
    ) as caught:
        key_or_fail(None, needed=True, advice=", or pray", **where)
    assert caught.value.field == "llm.config.api_key"


def test_host_of() -> None:
    assert host_of("https://API.OpenAI.com:443/v1?x=1") == "api.openai.com"
    assert host_of("http://user:word@[::1]:8080/") == "::1"
    assert host_of("nonsense") == ""


def test_readable() -> None:
    assert readable("é 🚴 \x00") == "é 🚴 \x00"
    assert readable("a\ud800b\udfff") == "a\ufffdb\ufffd"
    assert readable("\ud83d\ude00") == "😀"


# ------------------------------------------------------------------ the words for failures


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, None), (401, "authentication"), (402, "quota"), (403, "authentication"), (404, None),
        (408, "timeout"), (409, "server"), (413, None), (422, None), (429, "rate_limit"), (500, "server"),
        (503, "server"), (529, "server"),
    ],
)  # fmt: skip
def test_code_of(status: int, code: str | None) -> None:
    assert code_of(status) == code


def test_what_a_status_means() -> None:
    busy = told(429, after=3.0)
    assert isinstance(busy, RetryLater) and (busy.after, busy.error.code) == (3.0, "rate_limit")
    wrong = told(400, parameter="heat")
    assert isinstance(wrong, RefusedError) and (wrong.parameter, wrong.said) == ("heat", "words")
    assert isinstance(told(400, code="refused"), LLMError), "a filter's refusal is not a faulty request"
    assert isinstance(told(404), LLMError)
    assert str(told(404, said="")) == "vendor: status 404"


def test_a_refused_key_is_not_repeated_and_a_refused_country_is_told() -> None:
    assert str(told(401, said="bad key abc***xyz")) == "vendor: the key was refused (status 401)"
    assert str(told(400, said="bad key abc", code="authentication")) == "vendor: the key was refused (status 400)"
    assert "not in your country" in str(told(403, said="not in your country"))


def test_nothing_that_looks_like_a_key_is_shown() -> None:
    words = f"{SECRET} sk-abc***wxyz hf_abcdefghij AIzaSyA-1234567890 Authorization: Bearer abc.def pk-live-1234"
    shown = str(Vendor().broken(words))
    for part in (SECRET, "wxyz", "hf_abc", "AIza", "abc.def", "live"):
        assert part not in shown
    assert len(str(Vendor().broken("x" * 9000))) < 600


def test_the_error_is_the_familys() -> None:
    assert isinstance(Vendor().broken("x"), LLMError)
    assert isinstance(Vendor(failure=EmbeddingError).broken("x"), EmbeddingError)


# ------------------------------------------------------------------ asking


class Script:
    """A request that fails with each of the errors in turn, then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.count = 0

    async def __call__(self, client: Client) -> str:
        self.count += 1
        client.loops.append(asyncio.get_running_loop())
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


def passing() -> Failed:
    return Failed(RetryLater(LLMError("busy", code="server")))


def test_transient_failures_are_retried_and_the_last_is_raised_alone() -> None:
    script = Script(passing(), passing())
    assert asyncio.run(Vendor().ask(script)) == "answer"
    assert script.count == 3
    script = Script(*(passing() for _ in range(9)))
    with pytest.raises(LLMError, match="busy") as caught:
        asyncio.run(Vendor().ask(script))
    assert script.count == 3
    assert caught.value.__context__ is None and caught.value.__cause__ is None


def test_only_a_caller_that_asks_otherwise_sees_a_refused_request() -> None:
    refused = RefusedError(LLMError("no"), "heat", "no heat")
    with pytest.raises(LLMError, match="no"):
        asyncio.run(Vendor().ask(Script(Failed(refused))))
    with pytest.raises(RefusedError) as caught:
        asyncio.run(Vendor().ask(Script(Failed(refused)), asks_otherwise=True))
    assert caught.value.parameter == "heat"


def test_a_fault_of_perdures_own_is_not_dressed_as_the_services() -> None:
    with pytest.raises(ZeroDivisionError):
        asyncio.run(Vendor().ask(Script(ZeroDivisionError())))
    with pytest.raises(LLMError, match=r"the request could not be made \(UnicodeEncodeError\)"):
        asyncio.run(Vendor().ask(Script(UnicodeEncodeError("utf-8", "\ud800", 0, 1, "lone"))))


def test_the_time_limit_is_one_attempts() -> None:
    async def slow(client: Client) -> str:
        await asyncio.sleep(60)
        return "never"

    with pytest.raises(LLMError, match="no answer within 0.05 s") as caught:
        asyncio.run(Vendor(Settings(timeout=0.05, retries=3)).ask(slow))
    assert caught.value.code == "timeout"


def test_cancelling_passes_through() -> None:
    async def work() -> int:
        script = Script(*(passing() for _ in range(9)))
        vendor = Vendor(Settings(retries=9, retry_delay=60))
        task = asyncio.create_task(vendor.ask(script))
        while not script.count:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return script.count

    assert asyncio.run(work()) == 1


def test_a_missing_client_is_named_with_its_pip_line() -> None:
    class Missing(Vendor):
        sdk: ClassVar[str] = "no_such_client"

    with pytest.raises(DependencyError, match=f"no_such_client.*{re.escape(extra_line('vendor'))}"):
        asyncio.run(Missing().ask(Script()))


# ------------------------------------------------------------------ streaming


async def numbers(end: Exception | None) -> AsyncIterator[int]:
    yield 1
    yield 2
    if end:
        raise end


async def collect(vendor: Vendor, request: Any) -> list[int]:
    return [piece async for piece in vendor.stream(request)]


def test_a_stream_is_begun_again_only_before_its_first_piece() -> None:
    attempts: list[int] = []

    async def request(client: Client) -> AsyncIterator[int]:
        attempts.append(1)
        if len(attempts) < 3:
            raise passing()
        return numbers(None)

    assert asyncio.run(collect(Vendor(), request)) == [1, 2]
    assert len(attempts) == 3


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (passing(), "busy"),
        (Failed(RefusedError(LLMError("no"), "", "no")), "no"),
        (Failed(LLMError("told", code="server")), "told"),
        (ValueError("no JSON"), "the answer cannot be read"),
    ],
)
def test_a_stream_that_breaks_off_is_one_error_after_its_pieces(end: Exception, words: str) -> None:
    attempts: list[int] = []

    async def request(client: Client) -> AsyncIterator[int]:
        attempts.append(1)
        return numbers(end)

    async def work() -> list[int]:
        came: list[int] = []
        with pytest.raises(LLMError, match=words):
            async for piece in Vendor().stream(request):
                came.append(piece)
        return came

    assert asyncio.run(work()) == [1, 2]
    assert len(attempts) == 1


def test_a_stream_that_is_left_is_closed() -> None:
    closed: list[bool] = []

    async def pieces() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            closed.append(True)

    async def request(client: Client) -> AsyncIterator[int]:
        return pieces()

    async def work() -> list[bool]:
        stream = Vendor().stream(request)
        await anext(stream)
        await stream.aclose()
        return list(closed)

    assert asyncio.run(work()) == [True]


# ------------------------------------------------------------------ clients and loops


def test_one_client_for_each_loop_closed_with_it() -> None:
    async def many(vendor: Vendor) -> None:
        await asyncio.gather(*(vendor.ask(Script()) for _ in range(10)))

    vendor = Vendor()
    asyncio.run(many(vendor))
    asyncio.run(many(vendor))
    used = [client for client in vendor.clients if client.loops]
    assert len(used) == 2
    assert all(len(set(client.loops)) == 1 and len(client.loops) == 10 for client in used)
    assert all(client.closed for client in vendor.clients), "also those that another task was faster than"
    assert used[0].thread is not threading.main_thread(), "making a client reads certificates: not on the loop"


def test_closing_closes_every_running_loops_client_and_another_call_opens_a_new_one() -> None:
    vendor = Vendor()
    other = asyncio.new_event_loop()
    thread = threading.Thread(target=other.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(vendor.ask(Script()), other).result()

        async def here() -> None:
            await vendor.ask(Script())
            assert not any(client.closed for client in vendor.clients)
            await vendor.close()
            await vendor.close()
            assert all(client.closed for client in vendor.clients) and len(vendor.clients) == 2
            await vendor.ask(Script())
            assert len(vendor.clients) == 3

        asyncio.run(here())
    finally:
        other.call_soon_threadsafe(other.stop)
        thread.join()
        other.close()
    assert all(client.closed for client in vendor.clients)


def test_a_loop_that_was_closed_without_ceremony_is_forgotten() -> None:
    vendor = Vendor()
    for _ in range(5):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(vendor.ask(Script()))
        loop.close()
    asyncio.run(vendor.ask(Script()))
    assert len(vendor._clients) <= 1
