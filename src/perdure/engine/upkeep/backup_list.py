"""Which backups of a memory were made, and where: kept in the ledger, so that an erasure can reach them (U4)."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure.backends.ledgers.base import Ledger
from perdure.engine.graph.jobs import Kinds
from perdure.engine.kernel import Kernel


@dataclass(frozen=True, slots=True)
class Owed:
    """What is to be taken out of a backup: memories, messages, and all of some scopes."""

    memories: frozenset[str] = frozenset()
    episodes: frozenset[str] = frozenset()
    scopes: tuple[dict[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.memories or self.episodes or self.scopes)

    def __or__(self, other: Owed) -> Owed:
        scopes = [*self.scopes, *(scope for scope in other.scopes if scope not in self.scopes)]
        return Owed(self.memories | other.memories, self.episodes | other.episodes, tuple(scopes))

    def model_dump(self) -> dict[str, Any]:
        """The same as plain values: ids and names of scopes, no text."""
        return {"memories": sorted(self.memories), "episodes": sorted(self.episodes), "scopes": list(self.scopes)}

    @classmethod
    def read(cls, value: Any) -> Owed:
        """What `model_dump` wrote; nothing for anything else."""
        if not isinstance(value, dict):
            return cls()
        memories, episodes = (frozenset(value.get(name) or ()) for name in ("memories", "episodes"))
        return cls(memories, episodes, tuple(value.get("scopes") or ()))


@dataclass(frozen=True, slots=True)
class Made:
    """One backup."""

    place: Path
    at: str
    host: str
    is_scheduled: bool = False
    owed: Owed = field(default_factory=Owed)
    """What could not be taken out of it yet."""

    @property
    def is_here(self) -> bool:
        """Whether it was written on this machine."""
        return self.host == platform.node()

    def model_dump(self) -> dict[str, Any]:
        """The backup as the ledger keeps it."""
        owed = {"owed": self.owed.model_dump()} if self.owed else {}
        return {"at": self.at, "host": self.host, "scheduled": self.is_scheduled, **owed}


def settings_name(kernel: Kernel, what: str) -> str:
    """The name of settings that are of one store alone: ledgers are shared."""
    return Kinds(kernel.identity, kernel.config.vector_store.collection_name).named(what)


async def made_backups(kernel: Kernel, ledger: Ledger) -> list[Made]:
    """The backups of this memory that the ledger knows of, oldest first."""
    known = await ledger.settings.get(settings_name(kernel, "backups"))
    found = [
        Made(
            Path(place), str(told.get("at", "")), str(told.get("host", "")), told.get("scheduled") is True,
            Owed.read(told.get("owed")),
        )
        for place, told in known.items()
    ]  # fmt: skip
    return sorted(found, key=lambda made: (made.at, str(made.place)))


async def note_backups(kernel: Kernel, ledger: Ledger, made: Iterable[Made] = (), gone: Iterable[Path] = ()) -> None:
    """Keep these in the list, and let go of those that are not there any more."""
    values: dict[str, Any] = {str(place): None for place in gone}
    values.update({str(each.place): each.model_dump() for each in made})
    if values:
        await ledger.settings.merge(settings_name(kernel, "backups"), values)
