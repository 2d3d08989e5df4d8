-- The rows of highest cosine and their similarities; or all rows of a small scope and their vectors.
-- ARGV: query, how many, plan or '', how many rows the caller likes to score itself
local wanted = tonumber(ARGV[5])

local function similar(count)
  return redis.call('VSIM', vectors, 'FP32', ARGV[4], 'WITHSCORES', 'COUNT', count, 'TRUTH')
end

local function records(found, among)
  local rows = {}
  for n = 1, #found, 2 do
    if #rows == wanted * 2 then break end
    local record = among[found[n]] and redis.call('HGET', row_key(found[n]), 'record')
    if record then
      rows[#rows + 1] = record
      rows[#rows + 1] = found[n + 1]
    end
  end
  return rows
end

local total = redis.call('VCARD', vectors)
if total == 0 then return {'scores', {}} end
local plan = ARGV[6] ~= '' and cjson.decode(ARGV[6])
if not plan or (bound(plan) or total) > tonumber(ARGV[7]) then
  -- So many rows may match that they are soon met among the nearest of all.
  local count = plan and wanted * 4 + 64 or wanted
  local most = plan and math.max(4096, count) or total
  while true do
    local found, ids, among = similar(count), {}, {}
    for n = 1, #found, 2 do ids[#ids + 1] = found[n] end
    for _, id in ipairs(plan and keep(plan, ids) or ids) do among[id] = true end
    local rows = records(found, among)
    if #rows == wanted * 2 or count >= total then return {'scores', rows} end
    if count >= most then break end
    count = math.min(count * 8, most)
  end
end
local rows = {}
for _, id in ipairs(select_ids(plan)) do
  local vector, record = vector_of(id), redis.call('HGET', row_key(id), 'record')
  if vector and record then
    rows[#rows + 1] = record
    rows[#rows + 1] = vector
  end
end
return {'vectors', rows}
