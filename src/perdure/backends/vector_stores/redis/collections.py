"""The collections of a Redis store: a hash by name, each with its number, dimension, mode and model.

All keys of a collection contain its number, which is never reused. So removing the number empties or deletes a
collection in one step; its rows are swept afterwards, if necessary by the next process that opens the store.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any, Literal
from uuid import uuid4

import redis
from redis.commands.core import Script
from redis.exceptions import ResponseError

from perdure.backends.vector_stores.base import Shape
from perdure.domain.errors import VectorStoreError
from perdure.domain.filter import TIME_FIELDS
from perdure.domain.scope import SCOPE_FIELDS

# Redis runs the scripts of the folder `lua` in one step each: nobody ever sees half of a batch, and no read mixes two
# moments.
#
# Keys of collection number 7 under the prefix `perdure`: `perdure:7:row:ID` is a hash with the row, `perdure:7:order`
# holds all rows sorted by (created_at, id). Without RediSearch there are also `perdure:7:vectors`, a vector set, and
# for each token one set `perdure:7:has:TOKEN` of the ids that have it. `perdure:collections` tells each collection's
# number.


def script(client: redis.Redis, *parts: str) -> Script:
    """Register a script with a client, made of files of the folder `lua` in order."""
    folder = files(__package__) / "lua"
    text = "\n".join((folder / f"{part}.lua").read_text(encoding="utf-8") for part in parts)
    return client.register_script(text)


Mode = Literal["search", "vectorset"]
_SWEPT = 1000  # rows that one step of a sweep deletes: Redis serves nobody else meanwhile
_COMMANDS: dict[Mode, str] = {"search": "FT.SEARCH", "vectorset": "VSIM"}
_ADVICE: dict[Mode, str] = {
    "search": "load the Search module (Redis 8, Redis Stack) and use database 0, or set mode to vectorset",
    "vectorset": "use Redis 8 or newer, or load the Search module and use database 0",
}


@dataclass(frozen=True, slots=True)
class Collection:
    """The data of a collection."""

    number: int
    dimension: int
    mode: Mode
    model: str

    @property
    def shape(self) -> Shape:
        return Shape(self.dimension, self.model)

    def write(self) -> bytes:
        """Return the collection as stored in the hash, which our scripts read too."""
        return f"{self.number}:{self.dimension}:{self.mode}:{self.model}".encode("utf-8", "surrogatepass")

    @staticmethod
    def read(entry: bytes) -> Collection:
        number, dimension, mode, model = entry.decode("utf-8", "surrogatepass").split(":", 3)
        return Collection(int(number), int(dimension), "search" if mode == "search" else "vectorset", model)


def is_no_index(error: ResponseError) -> bool:
    """Whether RediSearch reports a missing index; its words differ between versions."""
    said = str(error).lower()
    return "no such index" in said or "unknown index" in said or "index not found" in said


class Collections:
    """The collections under one prefix."""

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        self._client: Any = client  # the driver's types leave open whether an answer must be awaited
        self.prefix = prefix
        self.key = f"{prefix}:collections"
        self._retired = f"{prefix}:retired"
        self._retire = script(client, "retire")
        self._sweep = script(client, "sweep")

    def identity(self) -> str:
        """Return the store's id, created with the first call."""
        key = f"{self.prefix}:identity"
        self._client.set(key, str(uuid4()), nx=True)
        found: bytes = self._client.get(key)
        return found.decode()

    def best_mode(self, wanted: Mode | Literal["auto"]) -> Mode:
        """Return the storage mode of new collections; VectorStoreError if the server has none."""
        known = self._client.execute_command("COMMAND INFO", *_COMMANDS.values())
        able = {mode: bool(info) for mode, info in zip(_COMMANDS, known, strict=True)}
        if self._client.connection_pool.connection_kwargs.get("db", 0) != 0:
            able["search"] = False  # RediSearch indexes database 0 alone
        mode = wanted if wanted != "auto" else "search" if able["search"] else "vectorset"
        if able[mode]:
            return mode
        has = "in this database" if any(known) else "on this server"
        raise VectorStoreError(f"redis: there is no {_COMMANDS[mode]} {has}: {_ADVICE[mode]}")

    def find(self, name: str) -> Collection | None:
        entry = self._client.hget(self.key, _text(name))
        return None if entry is None else Collection.read(entry)

    def names(self) -> list[str]:
        return [name.decode("utf-8", "surrogatepass") for name in self._client.hkeys(self.key)]

    def base(self, number: int) -> str:
        """Return the key prefix of a number; with RediSearch also the name of its index."""
        return f"{self.prefix}:{number}"

    def add(self, name: str, shape: Shape, mode: Mode) -> None:
        """Create a collection, unless another process has just done so."""
        made = self._new(Collection(0, shape.dimension, mode, shape.model))
        if not self._client.hsetnx(self.key, _text(name), made.write()):
            self._discard(made)

    def empty(self, name: str) -> None:
        while (old := self.find(name)) is not None:
            new = self._new(old)
            if self._retire(keys=[self.key, self._retired], args=[_text(name), old.write(), new.write()]):
                self._clean(old.number, old.mode)
                return
            self._discard(new)

    def drop(self, name: str) -> None:
        while (old := self.find(name)) is not None:
            if self._retire(keys=[self.key, self._retired], args=[_text(name), old.write(), ""]):
                self._clean(old.number, old.mode)
                return

    def clean_up(self) -> None:
        """Sweep what killed processes have left behind."""
        for entry in self._client.smembers(self._retired):
            number, _, mode = entry.decode().partition(":")
            self._clean(int(number), mode)

    def _new(self, like: Collection) -> Collection:
        """Return the collection with a new number and the index that it needs."""
        new = replace(like, number=self._client.incr(f"{self.prefix}:last"))
        if new.mode == "search":
            base = self.base(new.number)
            # FLAT compares with every vector that the filter lets through: exact, as HNSW is not. The inner product
            # of vectors of length 1 is their cosine, and, other than COSINE, is defined for zeros.
            vector = ["vector", "VECTOR", "FLAT", 6, "TYPE", "FLOAT32", "DIM", new.dimension, "DISTANCE_METRIC", "IP"]
            tags = [part for field in (*SCOPE_FIELDS, "tokens") for part in (field, "TAG", "CASESENSITIVE")]
            times = [part for field in sorted(TIME_FIELDS) for part in (f"at:{field}", "AS", field, "NUMERIC")]
            where = ["ON", "HASH", "PREFIX", 1, f"{base}:row:", "SKIPINITIALSCAN"]
            self._client.execute_command("FT.CREATE", base, *where, "SCHEMA", *tags, *times, *vector)
        return new

    def _discard(self, unused: Collection) -> None:
        if unused.mode == "search":
            self._drop_index(unused.number)

    def _clean(self, number: int, mode: str) -> None:
        if mode == "search":
            self._drop_index(number)
        while self._sweep(keys=[self._retired], args=[self.prefix, number, f"{number}:{mode}", _SWEPT]):
            pass

    def _drop_index(self, number: int) -> None:
        try:
            self._client.execute_command("FT.DROPINDEX", self.base(number))
        except ResponseError as error:
            if not is_no_index(error):
                raise


def _text(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")
