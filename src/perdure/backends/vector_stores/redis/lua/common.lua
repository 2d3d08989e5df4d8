-- What every script on a collection begins with: it finds the collection, or says that the caller's number is stale.
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
