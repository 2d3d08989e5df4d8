"""Base classes of objects that a `with` or an `async with` block closes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self, TypeVar

from perdure.frontends.library.portal import PORTAL, Synchronous


class AsyncClosing(ABC):
    """Base of objects that an `async with` block closes."""

    @abstractmethod
    async def close(self) -> None:
        """Release all resources; closing twice is no error."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


C = TypeVar("C", bound=AsyncClosing)


class Closing(Synchronous[C]):
    """Base of synchronous objects that a `with` block closes."""

    def close(self) -> None:
        """Release all resources; closing twice is no error."""
        PORTAL.call(self._asynchronous.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
