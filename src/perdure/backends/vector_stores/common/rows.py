"""Checks of points, copies of payloads, and cursors, for every store."""

from __future__ import annotations

import base64
import binascii
import json
import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.backends.vector_stores.base import Page, VectorStore
from perdure.domain.errors import ConfigError, InvalidInputError
from perdure.domain.filter import Filter
from perdure.domain.scope import SCOPE_FIELDS

if TYPE_CHECKING:
    from perdure.backends.vector_stores.base import Vector

TEXT_FIELDS = (*SCOPE_FIELDS, "hash")  # fields that stores index: where a payload has them, they must be text
MAX_DEPTH = 100  # levels of lists and objects in a payload: far above any real one, far below Python's recursion limit
Limit = TypeVar("Limit", int, int | None)
MAX_LIMIT = 2**31 - 1  # rows that can be asked for at one time, as a 32-bit number
MAX_NUMBER = 2**1023  # whole numbers below this are what JSON readers everywhere can hold, if only about, as a double


def check_id(id: object) -> str:
    """Check that a row's id is text."""
    if not isinstance(id, str):
        raise InvalidInputError(f"a row's id must be text, not {id!r}", field="id", value=id)
    return id


def check_dimension(dimension: object) -> int:
    """Check that a dimension is a positive integer."""
    if isinstance(dimension, int) and not isinstance(dimension, bool) and dimension >= 1:
        return dimension
    raise InvalidInputError(
        f"dimension must be a whole number from 1 on, not {dimension!r}", field="dimension", value=dimension
    )


def check_same_dimension(name: str, made: int, dimension: int) -> None:
    """Raise ConfigError if a collection has another dimension."""
    if made != dimension:
        raise ConfigError(
            f"collection {name!r} holds vectors of dimension {made}, not {dimension}: "
            "use the embedder that filled it, or another collection",
            field="dimension",
            value=dimension,
        )


def check_most_dimensions(engine: str, most: int, dimension: int) -> None:
    """Raise ConfigError if an engine cannot store vectors of this length."""
    if dimension > most:
        problem = f"{engine} holds vectors of at most {most} dimensions, not {dimension}"
        raise ConfigError(problem, field="dimension", value=dimension)


def check_limit(limit: Limit) -> Limit:
    """Check that a limit is None or a positive integer; cap it to what every store can count."""
    if limit is None:
        return None
    if isinstance(limit, int) and not isinstance(limit, bool) and limit >= 1:
        return min(limit, MAX_LIMIT)
    raise InvalidInputError(f"limit must be a whole number from 1 on, not {limit!r}", field="limit", value=limit)


def check_vector(vector: object, dimension: int, field: str = "vector") -> Vector:
    """Return a float32 copy of shape (dimension,); InvalidInputError for a wrong length or number."""
    import numpy as np

    try:
        copy = np.array(vector, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{field} must be {dimension} numbers: {error}", field=field, value=None) from None
    if copy.shape != (dimension,):
        raise InvalidInputError(
            f"{field} must have {dimension} numbers as its collection has, not shape {copy.shape}",
            field=field,
            value=list(copy.shape),
        )
    if not np.isfinite(copy).all():
        raise InvalidInputError(f"{field} must hold finite numbers only", field=field, value=None)
    return copy


def check_payload(payload: object) -> dict[str, Any]:
    """Return a copy of the payload as plain JSON values; InvalidInputError names a key with another value."""
    if not isinstance(payload, Mapping):
        raise InvalidInputError(f"a payload must be an object, not {payload!r}", field="payload", value=payload)
    copy = _copy_object(payload, "payload", 0)
    for name in TEXT_FIELDS:
        if copy.get(name) is not None and not isinstance(copy[name], str):
            raise InvalidInputError(f"{name} must be text, not {copy[name]!r}", field=name, value=copy[name])
    return copy


def copy_payload(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return a deep copy of a checked payload."""
    return _copy_object(payload, "payload", 0)


def _copy_object(value: Mapping[Any, Any], field: str, depth: int) -> dict[str, Any]:
    copy = {}
    for key, element in value.items():
        if not isinstance(key, str):
            raise InvalidInputError(f"{field} has a key that is not text: {key!r}", field=field, value=key)
        plain = element is None or isinstance(element, str)
        copy[key] = element if plain else _copy(element, field if depth else key, depth + 1)
    return copy


def _copy(value: Any, field: str, depth: int) -> Any:
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        if abs(value) < MAX_NUMBER:
            return value
        raise InvalidInputError(f"{field} must be a number that a float can hold", field=field, value=None)
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        raise InvalidInputError(f"{field} must be a finite number, not {value!r}", field=field, value=value)
    if depth > MAX_DEPTH:
        raise InvalidInputError(f"{field} is nested deeper than {MAX_DEPTH} levels", field=field, value=None)
    if isinstance(value, (list, tuple)):
        return [_copy(element, field, depth + 1) for element in value]
    if isinstance(value, Mapping):
        return _copy_object(value, field, depth)
    raise InvalidInputError(
        f"{field} must be text, a number, a boolean, a list or an object, not {type(value).__name__}",
        field=field,
        value=value,
    )


Place = tuple[str, str]
"""Where a row stands in a list: its (created_at, id), with "" where the payload has no such text."""


def place_of(id: str, payload: Mapping[str, Any]) -> Place:
    """Return the row's place in a list."""
    created_at = payload.get("created_at")
    return (created_at if isinstance(created_at, str) else "", id)


def write_cursor(place: Place) -> str:
    """Return the opaque text that `read_cursor` reads."""
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def read_cursor(cursor: str) -> Place:
    """Return the place after which a list continues; InvalidInputError for text not from `write_cursor`."""
    try:
        place = json.loads(base64.b64decode(cursor.encode(), altchars=b"-_", validate=True))
    except (AttributeError, UnicodeError, binascii.Error, json.JSONDecodeError):
        place = None
    if not isinstance(place, list) or len(place) != 2 or not all(isinstance(part, str) for part in place):
        raise InvalidInputError(
            f"cursor must be a next_cursor that an earlier page gave, not {cursor!r}", field="cursor", value=cursor
        )
    return place[0], place[1]


@dataclass(frozen=True, slots=True)
class Listing:
    """The rows of a list: at most `limit` of the filter's, after the place `after`."""

    filters: Filter | None
    limit: int | None
    after: Place | None
    with_vectors: bool


class ListingStore(VectorStore):
    """A store whose lists get one checked value."""

    async def list(
        self,
        collection: str,
        filters: Filter | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        *,
        with_vectors: bool = False,
    ) -> Page:
        after = None if cursor is None else read_cursor(cursor)
        return await self._list(collection, Listing(filters, check_limit(limit), after, with_vectors))

    @abstractmethod
    async def _list(self, collection: str, wanted: Listing) -> Page:
        """Return a page of the collection."""
