-- Takes a collection's number away in one step, to be swept; 0 where another process was faster.
-- KEYS: the collections, the retired; ARGV: name, entry that is there, entry to take its place or ''
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
if ARGV[3] == '' then redis.call('HDEL', KEYS[1], ARGV[1]) else redis.call('HSET', KEYS[1], ARGV[1], ARGV[3]) end
local number, mode = string.match(ARGV[2], '^(%d+):%d+:(%a+):')
redis.call('SADD', KEYS[2], number .. ':' .. mode)
return 1
