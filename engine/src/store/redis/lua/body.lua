-- How large the body of a job is. It lies at the end of what its caller gave, behind texts and settings that
-- scripts do not look at otherwise: docs/format.md has them.
local body_bytes
do
local function has(flags, bit) return math.floor(flags / bit) % 2 == 1 end

-- A number in groups of 7 bits, and where it ends.
local function varint(bytes, at)
  local value, unit = 0, 1
  while true do
    local one = string.byte(bytes, at)
    at = at + 1
    if one < 128 then return value + one * unit, at end
    value, unit = value + (one - 128) * unit, unit * 128
  end
end

local function after_numbers(bytes, at, count)
  for _ = 1, count do at = select(2, varint(bytes, at)) end
  return at
end

local function after_texts(bytes, at, count)
  for _ = 1, count do
    local len, from = varint(bytes, at)
    at = from + len
  end
  return at
end

local function after_retry(bytes, at)
  local kind, steps = string.byte(bytes, at), 3
  at = after_numbers(bytes, at + 1, 1)
  if kind ~= 0 then steps, at = varint(bytes, at) end
  return after_numbers(bytes, at, steps)
end

local function after_repeat(bytes, at)
  local flags = string.byte(bytes, at)
  at = at + 1
  if has(flags, 1) then at = after_texts(bytes, at, 2) else at = after_numbers(bytes, at, 1) end
  if has(flags, 2) then at = at + 6 end
  if has(flags, 4) then at = after_numbers(bytes, at, 1) end
  if has(flags, 32) then at = after_numbers(bytes, at, 1) end
  return at
end

local function after_own(bytes, at)
  local flags = string.byte(bytes, at)
  at = at + 1
  if has(flags, 1) then at = after_numbers(bytes, at, 1) end
  if has(flags, 2) then at = after_retry(bytes, at) end
  if has(flags, 4) then at = after_repeat(bytes, at) end
  if has(flags, 8) then at = after_texts(bytes, at, 1) end
  if has(flags, 16) then at = after_numbers(bytes, at, 2) end
  if has(flags, 128) then at = at + 1 end
  return at
end

-- Of a job whose id, with its length, begins at this place: what comes before differs.
body_bytes = function(bytes, at)
  local function skip(size) at = at + size + struct.unpack(size == 1 and 'B' or '>I2', bytes, at) end
  skip(2)
  skip(1)
  skip(1)
  skip(2)
  skip(2)
  at = at + 4
  local flags = string.byte(bytes, at)
  at = after_texts(bytes, at + 1, 2)
  if has(flags, 32) then at = after_texts(bytes, at, 1) end
  if has(flags, 64) then at = after_texts(bytes, at, 1) end
  if has(flags, 8) then at = after_numbers(bytes, at, 1) end
  if has(flags, 16) then at = after_own(bytes, at) end
  if has(flags, 128) then at = at + 26 end
  return (varint(bytes, at))
end
end
