"""What every method of the runtime stands on: names and arguments in either case, and the agent's own tables.

    await runtime.search_memories(table_name="facts", query="tea")
    await runtime.searchMemories({"tableName": "facts", "query": "tea"})

Agents written in TypeScript use names in camelCase and values in one object. `EitherCase` gives a class both.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

from perdure.backends.ledgers.repositories.base import Query, Where
from perdure.domain.errors import InvalidInputError
from perdure.domain.memory import Answer, new_id
from perdure.domain.runtime import R, Record, camel, read_key, read_names, snake
from perdure.domain.scope import Scope
from perdure.domain.text.readable import shown
from perdure.engine.agent_runtime.tables import Tables, Tasks, Worker
from perdure.engine.requests import read_limit

_NO_OBJECTS = frozenset({"str", "int", "Sequence[str]"})  # annotations of parameters that accept no object


class EitherCase:
    """Base of classes whose public methods and properties also have camelCase names and accept a dictionary.

    A method's values come by position, as keywords in either case, or in one dictionary. A single dictionary is taken
    apart if all of its keys are parameters of the method, and always if it can be nothing else: the method has only
    keywords, or its first value is no object. Any other dictionary is the first value itself:
    `create_memory({"content": ...}, "facts")`. A method that ends in `**fields` also takes those from an object at the
    end, which may be a typed one: `update_task(id, {"name": ...})`. A missing value and an unknown name raise
    InvalidInputError. Signatures are as written.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, member in list(vars(cls).items()):
            if name.startswith("_"):
                continue
            if inspect.isfunction(member):
                answering = _in_either_form(member)
                setattr(cls, name, answering)
                setattr(cls, camel(name), answering)
            elif isinstance(member, property):
                setattr(cls, camel(name), member)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
            """The camelCase names, for type checkers."""


def _in_either_form(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the method so that it receives its arguments under its own names."""
    parameters = list(inspect.signature(method).parameters.values())[1:]  # without self
    named = [each for each in parameters if each.kind is not inspect.Parameter.VAR_KEYWORD]
    names = [each.name for each in named]
    known = names if len(named) == len(parameters) else None
    by_position = [each.name for each in named if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    is_always = not by_position or _is_no_object(named[0])
    required = [each.name for each in named if each.default is inspect.Parameter.empty]
    what = f"{method.__name__}()"

    def read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        alone = args[0] if len(args) == 1 else None
        if known is None and args and isinstance(args[-1], Mapping | Answer):
            last, args = args[-1], args[:-1]
            values = read_names(last.model_dump() if isinstance(last, Answer) else last, None, what)
        elif isinstance(alone, Mapping) and (is_always or _is_apart(alone, names)):
            values, args = read_names(alone, names, what), ()
        if len(args) > len(by_position):
            raise TypeError(f"{what} takes {len(by_position)} values by position, not {len(args)}")
        for given in (dict(zip(by_position, args, strict=False)), read_names(kwargs, known, what)):
            for name, value in given.items():
                if name in values:
                    raise InvalidInputError(f"{what} is given {camel(name)} twice", field=name, value=value)
                values[name] = value
        for name in required:
            if name not in values:
                raise InvalidInputError(f"{camel(name)} is required", field=name)
        return values

    if inspect.iscoroutinefunction(method):

        @wraps(method)
        async def answer(self: Any, *args: Any, **kwargs: Any) -> Any:
            return await method(self, **read(args, kwargs))

        return answer

    @wraps(method)
    def answer_now(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(self, **read(args, kwargs))

    return answer_now


def _is_no_object(parameter: inspect.Parameter) -> bool:
    """Whether a parameter's annotation excludes a dictionary."""
    return str(parameter.annotation).removesuffix(" | None") in _NO_OBJECTS


def _is_apart(given: Mapping[Any, Any], names: Collection[str]) -> bool:
    """Whether a dictionary contains a method's values, and is not the first of them."""
    return bool(given) and all(isinstance(key, str) and snake(key) in names for key in given)


class Tabled(EitherCase):
    """Base of the parts. Reads and writes concern the runtime's own agent, unless another `agent_id` is given.

    Ids may be any text, and are compared literally. Records are typed, and can be read by key. An unknown id is no
    error: the result is `None`, False, or not in the list. InvalidInputError names a field that is unknown, missing or
    wrong; ForbiddenError is raised if the memory's scope does not allow a call, LedgerError if the ledger fails.
    """

    _agent_id: str
    _walls: Scope
    _tables: Tables
    _tasks: Tasks
    _workers: dict[str, Worker]

    def _of(self, agent_id: object) -> str:
        return self._agent_id if agent_id is None else read_key(agent_id, "agent_id")

    def _key(self, agent_id: object, id: object, name: str) -> dict[str, str]:
        return {"agent_id": self._of(agent_id), "id": read_key(id, name)}

    def _new(self, noun: type[R], given: object) -> R:
        """Build a record from a caller's object; missing id, agent and times are filled in."""
        values = given.model_dump() if isinstance(given, noun) else given
        if not isinstance(values, Mapping):
            raise InvalidInputError(
                f"{noun.noun()} must be an object, not {shown(given)}", field=noun.noun(), value=given
            )
        now = self._tables.now()
        ours = {"id": new_id(), "agent_id": self._agent_id, "created_at": now, "updated_at": now}
        return noun.of(values, **{name: value for name, value in ours.items() if name in noun.field_names()})

    async def _created(self, noun: type[R], given: object) -> tuple[R, bool]:
        record = self._new(noun, given)
        [new] = await self._tables.add([record])
        return record, new

    async def _in_order(self, noun: type[R], agent_id: object, ids: Sequence[str]) -> list[R]:
        if not ids:
            return []
        where = {"agent_id": self._of(agent_id), "id": list(ids)}
        found = {each["id"]: each for each in await self._tables.find(Query(noun=noun, where=where))}
        return [found[id] for id in dict.fromkeys(ids) if id in found]

    async def _updated(self, noun: type[Record], given: Mapping[str, Any], id: object = None) -> bool:
        """Change the record of an id, which is one of the fields if it is not given separately."""
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
    """Return the ids of a list, each once; InvalidInputError if it is not a list."""
    if isinstance(values, (str, Mapping)) or not isinstance(values, (list, tuple, set, frozenset)):
        raise InvalidInputError(f"{camel(name)} must be a list of ids, not {shown(values)}", field=name, value=values)
    return list(dict.fromkeys(read_key(value, name) for value in values))


def named(**values: object) -> dict[str, str]:
    """Return conditions on ids that are required: None is InvalidInputError, since it would match every record."""
    return {name: read_key(value, name) for name, value in values.items()}


def given(**values: object) -> dict[str, str]:
    """Return conditions on the ids that were given."""
    return named(**{name: value for name, value in values.items() if value is not None})


def read_count(value: object, name: str, default: int | None = None) -> int | None:
    """Return a whole number from 1 on, or the default; InvalidInputError names the field."""
    return default if value is None else read_limit(value, name)


def objects(values: object, name: str) -> list[Any]:
    """Return the elements of a list of objects; InvalidInputError if it is not one."""
    if isinstance(values, (str, Mapping)) or not isinstance(values, (list, tuple)):
        raise InvalidInputError(f"{camel(name)} must be a list, not {shown(values)}", field=name, value=values)
    return list(values)
