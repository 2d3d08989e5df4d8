"""What Redis runs for us in one step, in Lua: nobody ever sees half of a batch, and no read mixes two moments.

Keys of collection number 7 under the prefix `perdure`: `perdure:7:row:ID` is a hash with the row, `perdure:7:order`
holds all rows sorted by (created_at, id). Without RediSearch there are also `perdure:7:vectors`, a vector set, and for
each token one set `perdure:7:has:TOKEN` of the ids that have it. `perdure:collections` tells each collection's number.
"""

from __future__ import annotations

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
