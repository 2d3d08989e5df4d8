-- Which rows satisfy a plan, by the sets of their tokens, where RediSearch is not loaded.
--
-- A plan is a filter's clause as JSON (`to_plan`). Few rows are gathered from the sets themselves; of many, those that a
-- vector set finds nearest are held against the plan one by one.

local function sets_of(names)
  local keys = {}
  for n, name in ipairs(names) do keys[n] = base .. ':has:' .. name end
  return keys
end

-- How many rows a plan's sets hold at most; nil where sets alone cannot tell all its rows.
local function bound(plan)
  local kind = plan[1]
  if kind == 'any' then
    local total = 0
    for _, key in ipairs(sets_of(plan[2])) do total = total + redis.call('SCARD', key) end
    return total
  end
  if kind ~= 'and' and kind ~= 'or' then return nil end
  local least, total = nil, 0
  for _, part in ipairs(plan[2]) do
    local size = bound(part)
    if size == nil then
      if kind == 'or' then return nil end
    else
      total = total + size
      if least == nil or size < least then least = size end
    end
  end
  if kind == 'or' then return total end
  return least
end

local select_ids, keep

-- Ids among which all rows of the plan are, and the plans that they must still be held against.
local function gather(plan)
  local kind = plan[1]
  if bound(plan) == nil then return all_ids(), {plan} end
  if kind == 'any' then return redis.call('SUNION', unpack(sets_of(plan[2]))), {} end
  if kind == 'or' then
    local found, seen = {}, {}
    for _, part in ipairs(plan[2]) do
      for _, id in ipairs(select_ids(part)) do
        if not seen[id] then
          seen[id] = true
          found[#found + 1] = id
        end
      end
    end
    return found, {}
  end
  local names, others, best, least = {}, {}, nil, nil
  for _, part in ipairs(plan[2]) do
    if part[1] == 'any' and #part[2] == 1 then names[#names + 1] = part[2][1] else others[#others + 1] = part end
    local size = bound(part)
    if size ~= nil and (least == nil or size < least) then best, least = part, size end
  end
  if best[1] == 'any' and #best[2] == 1 then return redis.call('SINTER', unpack(sets_of(names))), others end
  local rest = {}
  for _, part in ipairs(plan[2]) do
    if part ~= best then rest[#rest + 1] = part end
  end
  return select_ids(best), rest
end

local function keep_by_sets(names, ids, wanted)
  local keys, found, total = sets_of(names), {}, 0
  for _, key in ipairs(keys) do total = total + redis.call('SCARD', key) end
  local members
  if total <= 4 * #ids then
    members = {}
    for _, id in ipairs(redis.call('SUNION', unpack(keys))) do members[id] = true end
  end
  for _, id in ipairs(ids) do
    local has = false
    if members then
      has = members[id] == true
    else
      for _, key in ipairs(keys) do
        has = redis.call('SISMEMBER', key, id) == 1
        if has then break end
      end
    end
    if has == wanted then found[#found + 1] = id end
  end
  return found
end

local function keep_within(plan, ids)
  local low = plan[3] == '-inf' and -math.huge or tonumber(plan[3])
  local high = plan[4] == 'inf' and math.huge or tonumber(plan[4])
  local found = {}
  for _, id in ipairs(ids) do
    local at = redis.call('HGET', row_key(id), 'at:' .. plan[2])
    if at then
      local value = tonumber(at)
      if value >= low and value <= high then found[#found + 1] = id end
    end
  end
  return found
end

-- Those of the ids whose rows satisfy the plan, in any order.
keep = function(plan, ids)
  local kind = plan[1]
  if kind == 'any' then return keep_by_sets(plan[2], ids, true) end
  if kind == 'none' then return keep_by_sets(plan[2], ids, false) end
  if kind == 'within' then return keep_within(plan, ids) end
  if kind == 'and' then
    for _, part in ipairs(plan[2]) do ids = keep(part, ids) end
    return ids
  end
  local left, found = ids, {}
  for _, part in ipairs(plan[2]) do
    local taken = {}
    for _, id in ipairs(keep(part, left)) do
      taken[id] = true
      found[#found + 1] = id
    end
    local rest = {}
    for _, id in ipairs(left) do
      if not taken[id] then rest[#rest + 1] = id end
    end
    left = rest
  end
  return found
end

select_ids = function(plan)
  local ids, rest = gather(plan)
  for _, part in ipairs(rest) do ids = keep(part, ids) end
  return ids
end
