"""The rows of one collection in Redis: written and read by scripts, searched by RediSearch or by a vector set."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import redis
from redis.commands.core import Script
from redis.exceptions import ResponseError

from perdure.backends.vector_stores.base import Vector
from perdure.backends.vector_stores.common.documents import Document, Row, decode
from perdure.backends.vector_stores.common.rows import Place, place_of
from perdure.backends.vector_stores.common.scoring import exact_scores
from perdure.backends.vector_stores.redis import collections as scripts
from perdure.backends.vector_stores.redis.collections import COMMON, Collection, Collections, is_no_index
from perdure.backends.vector_stores.redis.filter import Clause, plain_scopes, scope_set, to_plan, to_query
from perdure.domain.errors import VectorStoreError
from perdure.domain.filter import TIME_FIELDS

# What stands in for RediSearch where it is not loaded, in Lua: which rows satisfy a plan, by the sets of their
# tokens.
#
# A plan is a filter's clause as JSON (see `_redis_filter`). Few rows are gathered from the sets themselves; of many,
# those that a vector set finds nearest are held against the plan one by one.

_SELECT = r"""
local function sets_of(names)
  local keys = {}
  for n, name in ipairs(names) do keys[n] = base .. ':has:' .. name end
  return keys
end

-- How many rows a plan's sets hold at most; nil where sets alone cannot tell all its rows.
local function bound(plan)
  local kind = plan[1]
  if kind == 'any' then
    local total = 0
    for _, key in ipairs(sets_of(plan[2])) do total = total + redis.call('SCARD', key) end
    return total
  end
  if kind ~= 'and' and kind ~= 'or' then return nil end
  local least, total = nil, 0
  for _, part in ipairs(plan[2]) do
    local size = bound(part)
    if size == nil then
      if kind == 'or' then return nil end
    else
      total = total + size
      if least == nil or size < least then least = size end
    end
  end
  if kind == 'or' then return total end
  return least
end

local select_ids, keep

-- Ids among which all rows of the plan are, and the plans that they must still be held against.
local function gather(plan)
  local kind = plan[1]
  if bound(plan) == nil then return all_ids(), {plan} end
  if kind == 'any' then return redis.call('SUNION', unpack(sets_of(plan[2]))), {} end
  if kind == 'or' then
    local found, seen = {}, {}
    for _, part in ipairs(plan[2]) do
      for _, id in ipairs(select_ids(part)) do
        if not seen[id] then
          seen[id] = true
          found[#found + 1] = id
        end
      end
    end
    return found, {}
  end
  local names, others, best, least = {}, {}, nil, nil
  for _, part in ipairs(plan[2]) do
    if part[1] == 'any' and #part[2] == 1 then names[#names + 1] = part[2][1] else others[#others + 1] = part end
    local size = bound(part)
    if size ~= nil and (least == nil or size < least) then best, least = part, size end
  end
  if best[1] == 'any' and #best[2] == 1 then return redis.call('SINTER', unpack(sets_of(names))), others end
  local rest = {}
  for _, part in ipairs(plan[2]) do
    if part ~= best then rest[#rest + 1] = part end
  end
  return select_ids(best), rest
end

local function keep_by_sets(names, ids, wanted)
  local keys, found, total = sets_of(names), {}, 0
  for _, key in ipairs(keys) do total = total + redis.call('SCARD', key) end
  local members
  if total <= 4 * #ids then
    members = {}
    for _, id in ipairs(redis.call('SUNION', unpack(keys))) do members[id] = true end
  end
  for _, id in ipairs(ids) do
    local has = false
    if members then
      has = members[id] == true
    else
      for _, key in ipairs(keys) do
        has = redis.call('SISMEMBER', key, id) == 1
        if has then break end
      end
    end
    if has == wanted then found[#found + 1] = id end
  end
  return found
end

local function keep_within(plan, ids)
  local low = plan[3] == '-inf' and -math.huge or tonumber(plan[3])
  local high = plan[4] == 'inf' and math.huge or tonumber(plan[4])
  local found = {}
  for _, id in ipairs(ids) do
    local at = redis.call('HGET', row_key(id), 'at:' .. plan[2])
    if at then
      local value = tonumber(at)
      if value >= low and value <= high then found[#found + 1] = id end
    end
  end
  return found
end

-- Those of the ids whose rows satisfy the plan, in any order.
keep = function(plan, ids)
  local kind = plan[1]
  if kind == 'any' then return keep_by_sets(plan[2], ids, true) end
  if kind == 'none' then return keep_by_sets(plan[2], ids, false) end
  if kind == 'within' then return keep_within(plan, ids) end
  if kind == 'and' then
    for _, part in ipairs(plan[2]) do ids = keep(part, ids) end
    return ids
  end
  local left, found = ids, {}
  for _, part in ipairs(plan[2]) do
    local taken = {}
    for _, id in ipairs(keep(part, left)) do
      taken[id] = true
      found[#found + 1] = id
    end
    local rest = {}
    for _, id in ipairs(left) do
      if not taken[id] then rest[#rest + 1] = id end
    end
    left = rest
  end
  return found
end

select_ids = function(plan)
  local ids, rest = gather(plan)
  for _, part in ipairs(rest) do ids = keep(part, ids) end
  return ids
end
"""

SELECT = (
    COMMON
    + _SELECT
    + r"""
-- ARGV: with vectors, plan, how many rows may be given at once
local ids = select_ids(cjson.decode(ARGV[5]))
if #ids > tonumber(ARGV[6]) then return {ids, {}} end
return {{}, rows_of(ids, ARGV[4])}
"""
)
"""The rows of a plan, or only their ids where there are many."""

COUNT = (
    COMMON
    + _SELECT
    + r"""
-- ARGV: plan or '', whether a number that is not too small will do
local total = redis.call('ZCARD', order)
if ARGV[4] == '' then return total end
local plan = cjson.decode(ARGV[4])
if ARGV[5] == '1' then return bound(plan) or total end
return #select_ids(plan)
"""
)
"""How many rows satisfy a plan, or how many there are."""

NEAREST = (
    COMMON
    + _SELECT
    + r"""
-- ARGV: query, how many, plan or '', how many rows the caller likes to score itself
local wanted = tonumber(ARGV[5])

local function similar(count)
  return redis.call('VSIM', vectors, 'FP32', ARGV[4], 'WITHSCORES', 'COUNT', count, 'TRUTH')
end

local function records(found, among)
  local rows = {}
  for n = 1, #found, 2 do
    if #rows == wanted * 2 then break end
    local record = among[found[n]] and redis.call('HGET', row_key(found[n]), 'record')
    if record then
      rows[#rows + 1] = record
      rows[#rows + 1] = found[n + 1]
    end
  end
  return rows
end

local total = redis.call('VCARD', vectors)
if total == 0 then return {'scores', {}} end
local plan = ARGV[6] ~= '' and cjson.decode(ARGV[6])
if not plan or (bound(plan) or total) > tonumber(ARGV[7]) then
  -- So many rows may match that they are soon met among the nearest of all.
  local count = plan and wanted * 4 + 64 or wanted
  local most = plan and math.max(4096, count) or total
  while true do
    local found, ids, among = similar(count), {}, {}
    for n = 1, #found, 2 do ids[#ids + 1] = found[n] end
    for _, id in ipairs(plan and keep(plan, ids) or ids) do among[id] = true end
    local rows = records(found, among)
    if #rows == wanted * 2 or count >= total then return {'scores', rows} end
    if count >= most then break end
    count = math.min(count * 8, most)
  end
end
local rows = {}
for _, id in ipairs(select_ids(plan)) do
  local vector, record = vector_of(id), redis.call('HGET', row_key(id), 'record')
  if vector and record then
    rows[#rows + 1] = record
    rows[#rows + 1] = vector
  end
end
return {'vectors', rows}
"""
)
"""The rows of highest cosine and their similarities; or all rows of a small scope and their vectors."""


PAGE = 2000
"""Rows that are read in one step."""

FEW = 4000
"""Rows of a scope up to which their vectors are fetched and scored here: faster than a pass over a whole vector set."""

Scored = list[tuple[Row, float]]


class Stale(Exception):
    """The collection was dropped, emptied or made anew since this process looked it up."""


class Scripts:
    """Our scripts, known to one client."""

    def __init__(self, client: redis.Redis) -> None:
        self.write = client.register_script(scripts.WRITE)
        self.fetch = client.register_script(scripts.FETCH)
        self.walk = client.register_script(scripts.WALK)
        self.select = client.register_script(SELECT)
        self.count = client.register_script(COUNT)
        self.nearest = client.register_script(NEAREST)
        self.audit = client.register_script(scripts.AUDIT)


class Rows(ABC):
    """The rows of a collection as it was when it was looked up; every method raises Stale once that is over."""

    def __init__(
        self, client: redis.Redis, known: Scripts, collections: Collections, name: str, collection: Collection
    ) -> None:
        self.collection = collection
        self._client: Any = client
        self._scripts = known
        self._keys = [collections.key]
        self._head: list[Any] = [collections.prefix, name.encode("utf-8", "surrogatepass"), collection.number]
        self._base = collections.base(collection.number)

    def _run(self, script: Script, *arguments: Any) -> Any:
        try:
            return script(keys=self._keys, args=[*self._head, *arguments])
        except ResponseError as error:
            if str(error).startswith("STALE"):
                raise Stale from None
            raise

    # ------------------------------------------------------------------ what both modes share
    def write(self, documents: Sequence[Document], deletes: Sequence[str]) -> None:
        """Write documents whole and delete others, in one step."""
        arguments: list[Any] = [len(documents)]
        for document in documents:
            tokens, fields = self._indexed(document)
            for path, moment in document.moments.items():
                if path in TIME_FIELDS:
                    fields[f"at:{path}"] = str(moment)
            pairs = [part for pair in fields.items() for part in pair]
            vector = b"" if document.vector is None else document.vector.astype("<f4").tobytes()
            place = _place_key((document.created_at, document.id))
            arguments += [_id(document.id), document.record, place, ",".join(tokens), vector, len(pairs), *pairs]
        self._run(self._scripts.write, *arguments, *map(_id, deletes))

    @abstractmethod
    def _indexed(self, document: Document) -> tuple[list[str], dict[str, str]]:
        """The tokens that the index gets, and further fields of the row."""

    def fetch(self, ids: Sequence[str | bytes], *, with_vectors: bool) -> list[Row]:
        """The rows of the ids that exist."""
        asked = [_id(id) if isinstance(id, str) else id for id in ids]
        return _rows(self._run(self._scripts.fetch, int(with_vectors), *asked))

    def walk(self, after: Place | None, limit: int, *, with_vectors: bool) -> list[Row]:
        """The first rows after a place, in order."""
        start = b"" if after is None else _place_key(after)
        return _rows(self._run(self._scripts.walk, int(with_vectors), start, limit))

    def scan(self, clause: Clause | None, *, with_vectors: bool) -> Iterator[list[Row]]:
        """Every row of the clause in pages; the rows of one page are of one moment."""
        if clause is not None:
            yield from self._matching(clause, with_vectors=with_vectors)
            return
        after: Place | None = None
        while page := self.walk(after, PAGE, with_vectors=with_vectors):
            yield page
            if len(page) < PAGE:
                return
            after = place_of(page[-1].id, page[-1].payload)

    def count(self, clause: Clause | None) -> int:
        """How many rows satisfy the clause."""
        return int(self._run(self._scripts.count, "", 0)) if clause is None else self._count(clause)

    def estimate(self, clause: Clause) -> int:
        """About how many rows satisfy the clause, and never too few."""
        return self._count(clause)

    def audit(self) -> list[str]:
        """What disagrees between the rows and what finds them, a sentence each."""
        rows, lost, embedded, vectors = map(int, self._run(self._scripts.audit))
        found = [f"{lost} of {rows} rows are listed but gone: was the server told to evict keys?"] if lost else []
        if embedded != vectors:
            found.append(f"{embedded} rows have a vector, and the vector set has {vectors}")
        return found

    @abstractmethod
    def _matching(self, clause: Clause, *, with_vectors: bool) -> Iterator[list[Row]]: ...

    @abstractmethod
    def _count(self, clause: Clause) -> int: ...

    @abstractmethod
    def nearest(self, query: Vector, limit: int, clause: Clause | None) -> Scored:
        """The rows of highest inner product with the query, best first."""


class SearchRows(Rows):
    """Rows that RediSearch indexes: tags for tokens and scopes, numbers for times, one flat vector field."""

    def _indexed(self, document: Document) -> tuple[list[str], dict[str, str]]:
        return document.tokens, plain_scopes(document.scope)

    def nearest(self, query: Vector, limit: int, clause: Clause | None) -> Scored:
        """The rows of highest inner product with the query, best first."""
        parameters = ["PARAMS", 4, "count", limit, "query", query.astype("<f4").tobytes()]
        shown = ["RETURN", 2, "record", "distance", "SORTBY", "distance", "LIMIT", 0, limit]
        among = to_query(clause) if clause is None else f"({to_query(clause)})"  # a bare negation would be no filter
        text = f"{among}=>[KNN $count @vector $query AS distance]"
        _, results = self._search(text, *parameters, *shown)
        return [(_row(fields[b"record"]), 1.0 - float(fields[b"distance"])) for fields in results]

    def _matching(self, clause: Clause, *, with_vectors: bool) -> Iterator[list[Row]]:
        shown = ["RETURN", 2, "record", "vector"] if with_vectors else ["RETURN", 1, "record"]
        total, results = self._search(to_query(clause), *shown, "LIMIT", 0, PAGE)
        if total <= PAGE:
            yield [_row(fields[b"record"], fields.get(b"vector")) for fields in results]
            return
        for ids in self._ids(clause):
            yield self.fetch(ids, with_vectors=with_vectors)

    def _ids(self, clause: Clause) -> Iterator[list[bytes]]:
        """The ids of all rows of the clause, however many."""
        begin = len(f"{self._base}:row:")
        how = ["LOAD", 1, "@__key", "TIMEOUT", 0, "WITHCURSOR", "COUNT", PAGE, "DIALECT", 2]
        found, cursor = self._call("FT.AGGREGATE", self._base, to_query(clause), *how)
        while True:
            yield [fields[b"__key"][begin:] for fields in _results(found)[1]]
            if not cursor:
                return
            found, cursor = self._call("FT.CURSOR", "READ", self._base, cursor, "COUNT", PAGE)

    def _count(self, clause: Clause) -> int:
        return self._search(to_query(clause), "LIMIT", 0, 0)[0]

    def audit(self) -> list[str]:
        """What disagrees between the rows and the index, a sentence each."""
        found = super().audit()
        for _ in range(3):  # others may write between the two looks
            rows = self.count(None)
            indexed = self._search("*", "LIMIT", 0, 0)[0]
            if rows == indexed:
                return found
        return [*found, f"there are {rows} rows, and the index {self._base} has {indexed}"]

    def _search(self, query: str, *arguments: Any) -> tuple[int, list[dict[bytes, bytes]]]:
        # Without a limit of its own a query that takes long would come back with a part of its rows.
        return _results(self._call("FT.SEARCH", self._base, query, *arguments, "TIMEOUT", 0, "DIALECT", 2))

    def _call(self, command: str, *arguments: Any) -> Any:
        try:
            return self._client.execute_command(command, *arguments)
        except ResponseError as error:
            if is_no_index(error):
                raise Stale from None
            raise


class VectorSetRows(Rows):
    """Rows without RediSearch: sets tell which rows have a token, a vector set holds the vectors."""

    def _indexed(self, document: Document) -> tuple[list[str], dict[str, str]]:
        scopes = plain_scopes(document.scope)
        return [*document.tokens, *(scope_set(field, value) for field, value in scopes.items())], {}

    def nearest(self, query: Vector, limit: int, clause: Clause | None) -> Scored:
        """The rows of highest inner product with the query, best first."""
        plan = "" if clause is None else json.dumps(to_plan(clause))
        how, found = self._run(self._scripts.nearest, query.astype("<f4").tobytes(), limit, plan, FEW)
        if how == b"scores":  # a vector set tells (1 + cosine) / 2
            return [(_row(record), 2.0 * float(score) - 1.0) for record, score in _pairs(found)]
        if not found:
            return []
        matrix = np.stack([np.frombuffer(vector, "<f4") for _, vector in _pairs(found)])
        scores = exact_scores(matrix, query)
        best = np.argsort(-scores, kind="stable")[:limit].tolist()
        return [(_row(found[2 * place]), float(scores[place])) for place in best]

    def _matching(self, clause: Clause, *, with_vectors: bool) -> Iterator[list[Row]]:
        many, rows = self._run(self._scripts.select, int(with_vectors), json.dumps(to_plan(clause)), PAGE)
        yield _rows(rows)
        for begin in range(0, len(many), PAGE):
            yield self.fetch(many[begin : begin + PAGE], with_vectors=with_vectors)

    def _count(self, clause: Clause) -> int:
        return int(self._run(self._scripts.count, json.dumps(to_plan(clause)), 0))

    def estimate(self, clause: Clause) -> int:
        """About how many rows satisfy the clause, and never too few."""
        return int(self._run(self._scripts.count, json.dumps(to_plan(clause)), 1))


def _results(answer: Mapping[bytes, Any]) -> tuple[int, list[dict[bytes, bytes]]]:
    """How many rows a query of RediSearch has, and the fields of those that it shows."""
    if warnings := answer.get(b"warning"):
        said = ", ".join(warning.decode("utf-8", "replace") for warning in warnings)
        raise VectorStoreError(f"redis: the Search module left rows out: {said[:200]}")
    fields = [found.get(b"extra_attributes") for found in answer[b"results"]]
    if not all(fields):  # a server with threads for queries: a row was deleted while it was being found
        raise Stale
    return int(answer[b"total_results"]), fields


def _pairs(flat: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)


def _rows(flat: Sequence[bytes]) -> list[Row]:
    return [_row(record, vector) for record, vector in _pairs(flat)]


def _row(record: bytes, vector: bytes | None = None) -> Row:
    return decode(record.decode(), np.frombuffer(vector, "<f4") if vector else None)


def _id(id: str) -> bytes:
    return id.encode("utf-8", "surrogatepass")


def _place_key(place: Place) -> bytes:
    """A key whose bytes sort as the pair does: UTF-8 keeps the order of code points, NUL ends the first part."""
    created_at, id = place
    return _id(created_at).replace(b"\x00", b"\x00\xff") + b"\x00\x01" + _id(id)
