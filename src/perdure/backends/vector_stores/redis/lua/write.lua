-- Writes documents whole and deletes others.
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
