-- The first rows after a place, in order.
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
