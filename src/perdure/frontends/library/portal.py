"""The synchronous library: runs the asynchronous one on a shared event loop in a daemon thread."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

A = TypeVar("A")
P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound="Synchronous[Any]")


class Portal:
    """Runs coroutines on its own loop in a daemon thread, for sync callers on any thread or inside a loop."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start again in a forked process, which has this object but not its thread."""
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the shared loop and return its result; Ctrl-C cancels it first."""
        loop = self._running_loop()
        try:
            if threading.current_thread() is self._thread:
                raise RuntimeError("a sync Memory cannot be used on perdure's own event loop: use AsyncMemory")
            future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        except BaseException:
            coroutine.close()
            raise
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._guard:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._run, args=(loop,), name="perdure-loop", daemon=True)
                self._thread.start()
                self._loop = loop
            return self._loop

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()


PORTAL = Portal()  # the portal that all synchronous objects of this process share

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=PORTAL.reset)


class Synchronous(Generic[A]):
    """Base of the synchronous classes, each of which holds an asynchronous object and calls it."""

    _asynchronous: A

    @classmethod
    def _over(cls, asynchronous: A) -> Self:
        self = cls.__new__(cls)
        self._asynchronous = asynchronous
        return self


@contextmanager
def _called_by_its_name(method: Callable[..., Any]) -> Iterator[None]:
    """Name the synchronous class in the error that an argument is missing or unknown."""
    try:
        yield
    except TypeError as error:
        if not str(error).startswith(f"{method.__qualname__}()"):
            raise
        raise TypeError(str(error).removeprefix("Async")) from None


def blocking(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Synchronous[A], P], T]:
    """Make the synchronous method of an asynchronous one: same name, signature and docstring, without `await`."""

    @wraps(method)
    def call(self: Synchronous[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        with _called_by_its_name(method):
            coroutine: Coroutine[Any, Any, T] = getattr(self._asynchronous, method.__name__)(*args, **kwargs)
        return PORTAL.call(coroutine)

    call.__qualname__ = method.__qualname__.removeprefix("Async")
    return call


def view(method: Callable[Concatenate[A, P], A]) -> Callable[Concatenate[S, P], S]:
    """Make the synchronous method of an asynchronous one that returns another object of its class."""

    @wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> S:
        with _called_by_its_name(method):
            return self._over(getattr(self._asynchronous, method.__name__)(*args, **kwargs))

    call.__qualname__ = method.__qualname__.removeprefix("Async")
    return call
