-- The rows of ids: record and vector of each that exists.
-- ARGV: with vectors, ids
local ids = {}
for n = 5, #ARGV do ids[#ids + 1] = ARGV[n] end
return rows_of(ids, ARGV[4])
