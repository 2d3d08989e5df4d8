"""Which collections a Redis store has: a hash of their names, each with its number, dimension, mode and model.

All keys of a collection bear its number, and a number is never used twice. So a collection is emptied or dropped in
one step, by taking its number away; the rows of that number are swept afterwards, by whoever opens the store next if
it comes to that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal
from uuid import uuid4

import redis
from redis.exceptions import ResponseError

from perdure.backends.vector_stores.base import Shape
from perdure.domain.errors import VectorStoreError
from perdure.domain.filter import TIME_FIELDS
from perdure.domain.scope import SCOPE_FIELDS

# What Redis runs for us in one step, in Lua: nobody ever sees half of a batch, and no read mixes two moments.
#
# Keys of collection number 7 under the prefix `perdure`: `perdure:7:row:ID` is a hash with the row, `perdure:7:order`
# holds all rows sorted by (created_at, id). Without RediSearch there are also `perdure:7:vectors`, a vector set, and
# for each token one set `perdure:7:has:TOKEN` of the ids that have it. `perdure:collections` tells each collection's
# number.

COMMON = r"""
-- KEYS[1] the collections; ARGV: prefix, name, number that the caller believes in, ...
local entry = redis.call('HGET', KEYS[1], ARGV[2]) or ''
local number, mode = string.match(entry, '^(%d+):%d+:(%a+):')
if number ~= ARGV[3] then return redis.error_reply('STALE collection') end
local base = ARGV[1] .. ':' .. number
local order, vectors = base .. ':order', base .. ':vectors'
local has_sets = mode == 'vectorset'

local function row_key(id) return base .. ':row:' .. id end

local function id_of(place)
  local _, last = string.find(place, '\0\1', 1, true)
  return string.sub(place, last + 1)
end

local function all_ids()
  local ids = redis.call('ZRANGE', order, 0, -1)
  for n = 1, #ids do ids[n] = id_of(ids[n]) end
  return ids
end

local function vector_of(id)
  if not has_sets then return redis.call('HGET', row_key(id), 'vector') end
  local found = redis.call('VEMB', vectors, id, 'RAW')
  return found and found[2]
end

local function rows_of(ids, with_vectors)
  local found = {}
  for _, id in ipairs(ids) do
    local record = redis.call('HGET', row_key(id), 'record')
    if record then
      found[#found + 1] = record
      found[#found + 1] = with_vectors == '1' and vector_of(id) or false
    end
  end
  return found
end
"""
"""What every script on a collection begins with: it finds the collection, or says that the caller's number is stale."""

WRITE = (
    COMMON
    + r"""
-- ARGV: how many documents; for each id, record, place, tokens, vector, how many fields, fields and values; then the
-- ids to delete.

local function set_of(text)
  local found = {}
  for token in string.gmatch(text, '[^,]+') do found[token] = true end
  return found
end

local function change_sets(id, old, new)
  local before, after = set_of(old), set_of(new)
  for token in pairs(before) do
    if not after[token] then redis.call('SREM', base .. ':has:' .. token, id) end
  end
  for token in pairs(after) do
    if not before[token] then redis.call('SADD', base .. ':has:' .. token, id) end
  end
end

local function put(id, place, tokens, vector, fields)
  local key = row_key(id)
  local old = redis.call('HMGET', key, 'place', 'tokens', 'digest')
  if vector ~= '' then
    fields[#fields + 1] = has_sets and 'digest' or 'vector'
    fields[#fields + 1] = has_sets and redis.sha1hex(vector) or vector
  end
  local kept = {}
  for n = 1, #fields, 2 do kept[fields[n]] = true end
  redis.call('HSET', key, unpack(fields))
  if old[1] then
    for _, field in ipairs(redis.call('HKEYS', key)) do
      if not kept[field] then redis.call('HDEL', key, field) end
    end
    if old[1] ~= place then redis.call('ZREM', order, old[1]) end
  end
  redis.call('ZADD', order, 0, place)
  if not has_sets then return end
  change_sets(id, old[2] or '', tokens)
  if vector == '' then
    if old[3] then redis.call('VREM', vectors, id) end
  elseif old[3] ~= fields[#fields] then
    -- Searches go over all vectors (TRUTH), so the graph that VADD also builds is kept as small as it can be.
    redis.call('VADD', vectors, 'FP32', vector, id, 'NOQUANT', 'M', '4', 'EF', '4')
  end
end

local next = 5
for _ = 1, tonumber(ARGV[4]) do
  local id, record, place, tokens, vector = ARGV[next], ARGV[next + 1], ARGV[next + 2], ARGV[next + 3], ARGV[next + 4]
  local count = tonumber(ARGV[next + 5])
  local fields = {'record', record, 'place', place, 'tokens', tokens}
  for n = next + 6, next + 5 + count do fields[#fields + 1] = ARGV[n] end
  put(id, place, tokens, vector, fields)
  next = next + 6 + count
end
for n = next, #ARGV do
  local id = ARGV[n]
  local old = redis.call('HMGET', row_key(id), 'place', 'tokens', 'digest')
  if old[1] then
    redis.call('DEL', row_key(id))
    redis.call('ZREM', order, old[1])
    if has_sets then change_sets(id, old[2], '') end
    if old[3] then redis.call('VREM', vectors, id) end
  end
end
return 'OK'
"""
)
"""Writes documents whole and deletes others."""

FETCH = (
    COMMON
    + r"""
-- ARGV: with vectors, ids
local ids = {}
for n = 5, #ARGV do ids[#ids + 1] = ARGV[n] end
return rows_of(ids, ARGV[4])
"""
)
"""The rows of ids: record and vector of each that exists."""

WALK = (
    COMMON
    + r"""
-- ARGV: with vectors, place to begin after or '', how many
local limit, start, found = tonumber(ARGV[6]), ARGV[5] == '' and '-' or '(' .. ARGV[5], {}
repeat
  local places = redis.call('ZRANGE', order, start, '+', 'BYLEX', 'LIMIT', 0, limit - #found / 2)
  if #places > 0 then start = '(' .. places[#places] end
  local ids = {}
  for n, place in ipairs(places) do ids[n] = id_of(place) end
  for _, part in ipairs(rows_of(ids, ARGV[4])) do found[#found + 1] = part end
until #places == 0 or #found == limit * 2
return found
"""
)
"""The first rows after a place, in order."""

AUDIT = (
    COMMON
    + r"""
local lost, embedded = 0, 0
local ids = all_ids()
for _, id in ipairs(ids) do
  local row = redis.call('HMGET', row_key(id), 'record', 'digest')
  if not row[1] then lost = lost + 1 end
  if row[2] then embedded = embedded + 1 end
end
return {#ids, lost, embedded, has_sets and redis.call('VCARD', vectors) or 0}
"""
)
"""How many rows there are, how many are lost, have a vector, and how many vectors there are in the set."""

RETIRE = r"""
-- KEYS: the collections, the retired; ARGV: name, entry that is there, entry to take its place or ''
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
if ARGV[3] == '' then redis.call('HDEL', KEYS[1], ARGV[1]) else redis.call('HSET', KEYS[1], ARGV[1], ARGV[3]) end
local number, mode = string.match(ARGV[2], '^(%d+):%d+:(%a+):')
redis.call('SADD', KEYS[2], number .. ':' .. mode)
return 1
"""
"""Takes a collection's number away in one step, to be swept; 0 where another process was faster."""

SWEEP = r"""
-- KEYS: the retired; ARGV: prefix, number, its entry among the retired, how many rows
local base = ARGV[1] .. ':' .. ARGV[2]
local places = redis.call('ZRANGE', base .. ':order', 0, ARGV[4] - 1)
for _, place in ipairs(places) do
  local _, last = string.find(place, '\0\1', 1, true)
  local key = base .. ':row:' .. string.sub(place, last + 1)
  for token in string.gmatch(redis.call('HGET', key, 'tokens') or '', '[^,]+') do
    redis.call('UNLINK', base .. ':has:' .. token)
  end
  redis.call('UNLINK', key)
  redis.call('ZREM', base .. ':order', place)
end
if #places > 0 then return 1 end
redis.call('UNLINK', base .. ':vectors')
redis.call('SREM', KEYS[1], ARGV[3])
return 0
"""
"""Deletes some rows of a number that no collection has any more; 0 once nothing is left."""


Mode = Literal["search", "vectorset"]

_SWEPT = 1000
"""Rows that one step of a sweep deletes: Redis serves nobody else meanwhile."""

_COMMANDS: dict[Mode, str] = {"search": "FT.SEARCH", "vectorset": "VSIM"}
_ADVICE: dict[Mode, str] = {
    "search": "load the Search module (Redis 8, Redis Stack) and use database 0, or set mode to vectorset",
    "vectorset": "use Redis 8 or newer, or load the Search module and use database 0",
}


@dataclass(frozen=True, slots=True)
class Collection:
    """What is known of a collection."""

    number: int
    dimension: int
    mode: Mode
    model: str

    @property
    def shape(self) -> Shape:
        """Its dimension and model."""
        return Shape(self.dimension, self.model)

    def write(self) -> bytes:
        """As it stands in the hash; our scripts read it too."""
        return f"{self.number}:{self.dimension}:{self.mode}:{self.model}".encode("utf-8", "surrogatepass")

    @staticmethod
    def read(entry: bytes) -> Collection:
        """What `write` wrote."""
        number, dimension, mode, model = entry.decode("utf-8", "surrogatepass").split(":", 3)
        return Collection(int(number), int(dimension), "search" if mode == "search" else "vectorset", model)


def is_no_index(error: ResponseError) -> bool:
    """Whether RediSearch says that an index does not exist; its words differ with its version."""
    said = str(error).lower()
    return "no such index" in said or "unknown index" in said or "index not found" in said


class Collections:
    """The collections under one prefix."""

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        self._client: Any = client  # the driver's types leave open whether an answer must be awaited
        self.prefix = prefix
        self.key = f"{prefix}:collections"
        self._retired = f"{prefix}:retired"
        self._retire = client.register_script(RETIRE)
        self._sweep = client.register_script(SWEEP)

    def identity(self) -> str:
        """The store's id, made with the first call."""
        key = f"{self.prefix}:identity"
        self._client.set(key, str(uuid4()), nx=True)
        found: bytes = self._client.get(key)
        return found.decode()

    def best_mode(self, wanted: Mode | Literal["auto"]) -> Mode:
        """How new collections are kept; VectorStoreError where the server cannot do it."""
        known = self._client.execute_command("COMMAND INFO", *_COMMANDS.values())
        able = {mode: bool(info) for mode, info in zip(_COMMANDS, known, strict=True)}
        if self._client.connection_pool.connection_kwargs.get("db", 0) != 0:
            able["search"] = False  # RediSearch indexes database 0 alone
        mode = wanted if wanted != "auto" else "search" if able["search"] else "vectorset"
        if able[mode]:
            return mode
        has = "in this database" if any(known) else "on this server"
        raise VectorStoreError(f"redis: there is no {_COMMANDS[mode]} {has}: {_ADVICE[mode]}")

    # ------------------------------------------------------------------ finding
    def find(self, name: str) -> Collection | None:
        """A collection, or None."""
        entry = self._client.hget(self.key, _text(name))
        return None if entry is None else Collection.read(entry)

    def names(self) -> list[str]:
        """The names of all."""
        return [name.decode("utf-8", "surrogatepass") for name in self._client.hkeys(self.key)]

    def base(self, number: int) -> str:
        """What the keys of that number begin with; with RediSearch also the name of its index."""
        return f"{self.prefix}:{number}"

    # ------------------------------------------------------------------ changing
    def add(self, name: str, shape: Shape, mode: Mode) -> None:
        """Make a collection, unless another process has just made it."""
        made = self._new(Collection(0, shape.dimension, mode, shape.model))
        if not self._client.hsetnx(self.key, _text(name), made.write()):
            self._discard(made)

    def empty(self, name: str) -> None:
        """Take every row away, in one step."""
        while (old := self.find(name)) is not None:
            new = self._new(old)
            if self._retire(keys=[self.key, self._retired], args=[_text(name), old.write(), new.write()]):
                self._clean(old.number, old.mode)
                return
            self._discard(new)

    def drop(self, name: str) -> None:
        """Remove a collection; one that is gone is no error."""
        while (old := self.find(name)) is not None:
            if self._retire(keys=[self.key, self._retired], args=[_text(name), old.write(), ""]):
                self._clean(old.number, old.mode)
                return

    def clean_up(self) -> None:
        """Sweep what processes that were killed have left behind."""
        for entry in self._client.smembers(self._retired):
            number, _, mode = entry.decode().partition(":")
            self._clean(int(number), mode)

    def _new(self, like: Collection) -> Collection:
        """The same with a number of its own, and the index that it needs."""
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
