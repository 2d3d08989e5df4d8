"""Tidying: what is made of many memories, several of one matter merged into one, and what they show together."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.domain.derived import Consolidation, Reflected
from perdure.domain.errors import InvalidInputError
from perdure.domain.scope import Scope
from perdure.engine import requests
from perdure.frontends.library.opened import Opened


class Tidying(Opened):
    """The part of AsyncMemory that consolidates and reflects (001 §7; V69, V70)."""

    async def consolidate(
        self,
        memory_ids: Sequence[str] | None = None,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        at_least: int = 2,
        dry_run: bool = False,
    ) -> list[Consolidation]:
        """Merge the named memories, which must be of one scope and one type, or what belongs together in a scope.

        Where values of one thing differ the newest stays, with the first one beside it. What named memories say of
        different matters is joined; in a scope such memories stay apart, the newest 100 are looked at, and nothing is
        done where there are fewer than `at_least`. The merged ones stay as versions, and `undo` takes back each event.
        With `dry_run` it is only said what would become of them.
        """
        only_told = requests.read_flag(dry_run, "dry_run")
        if memory_ids is None:
            scope, least = self._scope(user_id, agent_id, run_id), requests.read_limit(at_least, "at_least")
            return await self._engine.consolidate.scope(scope, at_least=least, dry_run=only_told)
        if Scope(user_id, agent_id, run_id).given():
            raise InvalidInputError(
                "consolidate takes the ids of memories or a scope, not both", field="memory_ids", value=memory_ids
            )
        ids = [requests.read_memory_id(id) for id in requests.read_texts(memory_ids, "memory_ids")]
        return [await self._engine.consolidate(ids, self._walls, dry_run=only_told)]

    async def reflect(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        about: str | None = None,
        dry_run: bool = False,
    ) -> Reflected:
        """What a scope's memories show together, in `insights`: counts, common issues, approaches, styles, lessons.

        Each names the memories that it came from, and is kept as a memory of type `reflective` that is forgotten with
        them; reflecting again updates those that are kept, and removes those that hold no longer. With `about` those
        are told that have one of its words, in themselves or in their memories; with `dry_run` none is kept.
        """
        scope, only_told = self._scope(user_id, agent_id, run_id), requests.read_flag(dry_run, "dry_run")
        wanted = None if about is None else requests.read_text(about, "about")
        return await self._engine.reflect(scope, store=not only_told, about=wanted)
