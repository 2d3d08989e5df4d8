-- The rows of a plan, or only their ids where there are many.
-- ARGV: with vectors, plan, how many rows may be given at once
local ids = select_ids(cjson.decode(ARGV[5]))
if #ids > tonumber(ARGV[6]) then return {ids, {}} end
return {{}, rows_of(ids, ARGV[4])}
