-- How many rows there are, how many are lost, have a vector, and how many vectors there are in the set.
local lost, embedded = 0, 0
local ids = all_ids()
for _, id in ipairs(ids) do
  local row = redis.call('HMGET', row_key(id), 'record', 'digest')
  if not row[1] then lost = lost + 1 end
  if row[2] then embedded = embedded + 1 end
end
return {#ids, lost, embedded, has_sets and redis.call('VCARD', vectors) or 0}
