-- The event log that instances write together: lines in segments, and sums by the hour. It has a slot of
-- its own.
--
-- ARGV[3]  `append`, who writes and its how-manieth time this is, the most bytes of all segments and of
--          one, how long events are kept in ms, the first and the last moment of these lines, and the
--          lines; then of each sum its hour, topic, what is counted, and by how much it grows; or `look`
-- Keys     `segments` hash: number -> first and last moment and bytes; `last` the last number; `s` and a
--          number: the lines of a segment; `h` and an hour: hash of sums, topic, a zero byte and what is
--          counted -> how much; `w` and who writes: the last time it did
-- Answers  of `append` nothing; else of each segment: number, first and last moment, bytes
do
-- So many sums has an hour; topics beyond are one, which has no name.
local SUMS_MAX = 50000

local function segment(number)
  local found = call('HGET', B .. 'segments', number)
  if not found then return end
  local first, last, bytes = string.match(found, '^(%d+) (%d+) (%d+)$')
  return { n = number, first = tonumber(first), last = tonumber(last), bytes = tonumber(bytes) }
end

local function all_segments()
  local all = {}
  for _, number in ipairs(call('HKEYS', B .. 'segments')) do
    all[#all + 1] = segment(tonumber(number))
  end
  table.sort(all, function(a, b) return a.n < b.n end)
  return all
end

local function append(most_of_one, first, last, lines)
  local number = tonumber(call('GET', B .. 'last') or 0)
  local s = segment(number)
  if not s or s.bytes + #lines > most_of_one then
    number = call('INCR', B .. 'last')
    s = { first = first, last = last, bytes = 0 }
  end
  call('APPEND', B .. 's' .. text(number), lines)
  s.first, s.last, s.bytes = math.min(s.first, first), math.max(s.last, last), s.bytes + #lines
  call('HSET', B .. 'segments', text(number), text(s.first) .. ' ' .. text(s.last) .. ' ' .. text(s.bytes))
end

local function count(at, keep)
  local hour, topic, what, by = unpack(ARGV, at, at + 3)
  local key, field = B .. 'h' .. hour, topic .. '\0' .. what
  if call('HEXISTS', key, field) == 0 and call('HLEN', key) >= SUMS_MAX then field = '\0' .. what end
  call('HINCRBY', key, field, by)
  call('PEXPIREAT', key, text(hour + 3600000 + keep))
end

local function let_go(most, keep)
  local all, total = all_segments(), 0
  for _, s in ipairs(all) do total = total + s.bytes end
  for at = 1, #all - 1 do
    local s = all[at]
    if total <= most and s.last >= now - keep then return end
    call('UNLINK', B .. 's' .. text(s.n))
    call('HDEL', B .. 'segments', text(s.n))
    total = total - s.bytes
  end
end

register('events', {}, function()
  if ARGV[3] == 'look' then
    local answers = {}
    for _, s in ipairs(all_segments()) do
      answers[#answers + 1] = { text(s.n), text(s.first), text(s.last), text(s.bytes) }
    end
    return answers
  end
  local who, time, keep = B .. 'w' .. ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[8])
  -- Its answer was lost.
  if tonumber(call('GET', who) or -1) >= time then return {} end
  call('SET', who, text(time), 'PX', 3600000)
  append(tonumber(ARGV[7]), tonumber(ARGV[9]), tonumber(ARGV[10]), ARGV[11])
  for at = 12, #ARGV, 4 do count(at, keep) end
  let_go(tonumber(ARGV[6]), keep)
  return {}
end)
end
