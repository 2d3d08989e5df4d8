-- Deletes some rows of a number that no collection has any more; 0 once nothing is left.
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
