"""Calling: each method of the runtime answers under its name in either case, and takes its values in either form.

    await runtime.search_memories(table_name="facts", query="tea")
    await runtime.searchMemories({"tableName": "facts", "query": "tea"})

Spec 003 writes for TypeScript: names in camelCase, values in one object. `EitherCase` gives a class both.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Coroutine, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any

from perdure.domain.errors import InvalidInputError
from perdure.domain.memory import Answer
from perdure.domain.records import camel, read_names, snake

_NO_OBJECTS = frozenset({"str", "int", "Sequence[str]"})
"""Annotations of parameters that take no object, as they are written."""


class EitherCase:
    """Base of classes whose public methods and properties also answer in camelCase, and take either form.

    A method's values come by position, as keywords in either case, or in one dictionary. A dictionary that stands alone
    is taken apart where all of its keys are parameters of the method, and always where it can be nothing else: the
    method has only keywords, or its first value is no object. Any other is the first value itself:
    `create_memory({"content": ...}, "facts")`. A method that ends in `**fields` takes those from an object at the end
    too, which may be a typed one: `update_task(id, {"name": ...})`. A value that is missing and a name that is unknown
    are InvalidInputErrors. Signatures are as written.
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
    """The method, with what it is given put under its own names."""
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
    """Whether a parameter is annotated as what no dictionary can be."""
    return str(parameter.annotation).removesuffix(" | None") in _NO_OBJECTS


def _is_apart(given: Mapping[Any, Any], names: Collection[str]) -> bool:
    """Whether a dictionary holds a method's values, and is not the first of them."""
    return bool(given) and all(isinstance(key, str) and snake(key) in names for key in given)
