"""What every part of a runtime's tables works with: its agent, and the way to the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.backends.ledgers.repositories.base import Query, Where
from perdure.domain.errors import InvalidInputError
from perdure.domain.memory import new_id
from perdure.domain.records import camel
from perdure.domain.runtime import R, Record, read_key
from perdure.domain.scope import Scope
from perdure.domain.text.readable import shown
from perdure.engine.agent_runtime.tables import Tables
from perdure.engine.agent_runtime.tasks import Tasks, Worker
from perdure.engine.arguments import read_limit
from perdure.frontends.library.runtime.calling import EitherCase


class Tabled(EitherCase):
    """Base of the parts. Reads and writes are of the runtime's own agent, unless another `agent_id` is asked for.

    Ids may be any text, and are compared as they are. Records are typed, and answer by key. An id that is not there is
    no error: `None`, False, or not in the list. InvalidInputError names a field that is unknown, missing or wrong;
    ForbiddenError is raised where walls of the memory do not let a call, LedgerError where the ledger fails.
    """

    _agent_id: str
    _walls: Scope
    _tables: Tables
    _tasks: Tasks
    _workers: dict[str, Worker]

    # ------------------------------------------------------------------ reading what is given
    def _of(self, agent_id: object) -> str:
        """The agent that is asked for, else the runtime's own."""
        return self._agent_id if agent_id is None else read_key(agent_id, "agent_id")

    def _key(self, agent_id: object, id: object, name: str) -> dict[str, str]:
        return {"agent_id": self._of(agent_id), "id": read_key(id, name)}

    def _new(self, noun: type[R], given: object) -> R:
        """The record that a caller's object holds; id, agent and times are ours where it leaves them out."""
        values = given.model_dump() if isinstance(given, noun) else given
        if not isinstance(values, Mapping):
            raise InvalidInputError(
                f"{noun.noun()} must be an object, not {shown(given)}", field=noun.noun(), value=given
            )
        now = self._tables.now()
        ours = {"id": new_id(), "agent_id": self._agent_id, "created_at": now, "updated_at": now}
        return noun.of(values, **{name: value for name, value in ours.items() if name in noun.field_names()})

    # ------------------------------------------------------------------ doing
    async def _created(self, noun: type[R], given: object) -> tuple[R, bool]:
        """The record, and whether it was new."""
        record = self._new(noun, given)
        [new] = await self._tables.add([record])
        return record, new

    async def _in_order(self, noun: type[R], agent_id: object, ids: Sequence[str]) -> list[R]:
        """The records of these ids that exist, in the order asked."""
        if not ids:
            return []
        where = {"agent_id": self._of(agent_id), "id": list(ids)}
        found = {each["id"]: each for each in await self._tables.find(Query(noun=noun, where=where))}
        return [found[id] for id in dict.fromkeys(ids) if id in found]

    async def _updated(self, noun: type[Record], given: Mapping[str, Any], id: object = None) -> bool:
        """Change the record of an id, which stands among the rest where it is not given."""
        changes = noun.changes(given)
        named = changes.pop("id", None) if id is None else read_key(id, f"{noun.noun()}_id".replace(" ", "_"))
        if named is None:
            raise InvalidInputError(f"id of the {noun.noun()} is required", field="id")
        key = {"id": named}
        if "agent_id" in noun.KEY:
            key["agent_id"] = self._of(changes.pop("agent_id", None))
        return await self._tables.change(noun, key, changes)

    async def _removed(self, noun: type[Record], where: Where) -> bool:
        return await self._tables.remove(noun, where) > 0


def ids(values: object, name: str) -> list[str]:
    """The ids of a list, each once; InvalidInputError where it is none."""
    if isinstance(values, (str, Mapping)) or not isinstance(values, (list, tuple, set, frozenset)):
        raise InvalidInputError(f"{camel(name)} must be a list of ids, not {shown(values)}", field=name, value=values)
    return list(dict.fromkeys(read_key(value, name) for value in values))


def named(**values: object) -> dict[str, str]:
    """Where fields are ids that must be named: None is InvalidInputError, for it would stand for every record."""
    return {name: read_key(value, name) for name, value in values.items()}


def given(**values: object) -> dict[str, str]:
    """Where a field is an id and was given."""
    return named(**{name: value for name, value in values.items() if value is not None})


def count(value: object, name: str, default: int | None = None) -> int | None:
    """A whole number from 1 on, or the default; InvalidInputError names the field."""
    return default if value is None else read_limit(value, name)


def objects(values: object, name: str) -> list[Any]:
    """The elements of a list of objects; InvalidInputError where it is none."""
    if isinstance(values, (str, Mapping)) or not isinstance(values, (list, tuple)):
        raise InvalidInputError(f"{camel(name)} must be a list, not {shown(values)}", field=name, value=values)
    return list(values)
