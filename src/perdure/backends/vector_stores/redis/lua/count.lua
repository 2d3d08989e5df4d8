-- How many rows satisfy a plan, or how many there are.
-- ARGV: plan or '', whether a number that is not too small will do
local total = redis.call('ZCARD', order)
if ARGV[4] == '' then return total end
local plan = cjson.decode(ARGV[4])
if ARGV[5] == '1' then return bound(plan) or total end
return #select_ids(plan)
