"""Who writes: what the units of work know of the handle that they work for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import Connection


@dataclass(frozen=True, slots=True)
class Writer:
    """The owner, in which run of the machine, and how to tell whether another owner is alive."""

    owner: str
    boot_id: str
    alive: Callable[[str, Connection], bool]
