-- Leases ready jobs, the best first: by priority, then due, then number, over all topics asked for.
--
-- ARGV[3]  lane: 0 pull, 1 push              ARGV[4]  at most so many
-- ARGV[5]  what leases are made from         ARGV[6]  the owner, 8 bytes
-- ARGV[7]  ttr of these terms, or 0          ARGV[8]  ttr where nobody says
-- ARGV[9]  how much longer a lease lasts than an attempt, or -1     ARGV[10]  the longest attempt
-- ARGV[11] 1 for any topic, else 0, and then as many topics as ARGV[12] says from ARGV[13] on;
-- then, if there is room for some only: for each destination, for each topic, and how many pairs
-- of destination and room follow; after them, pairs of topic and room
-- Answers  the clock, when the rate of a topic lets something out again or -1, 1 if a lease ran out,
--          when each job that is ready now was due, then of each job: number, job, since when it was
--          ready, settings of its topic
do
-- No lease is stored that lasts longer than a ttr may be.
local MOST = 604800000
-- Of the call under way.
local lane, room, opens, answers

-- For how many there is room, if for some only.
local function read_room(at)
  if not ARGV[at] then return nil end
  local found = { each_to = tonumber(ARGV[at]), each_topic = tonumber(ARGV[at + 1]), to = {}, topic = {} }
  local pairs_end = at + 2 + 2 * ARGV[at + 2]
  for i = at + 3, pairs_end, 2 do found.to[ARGV[i]] = tonumber(ARGV[i + 1]) end
  for i = pairs_end + 1, #ARGV, 2 do found.topic[ARGV[i]] = tonumber(ARGV[i + 1]) end
  return found
end

local FIELDS = { 'name', 'to', 'ttr', 'timeout', 'gap_us', 'gap_ns', 'room_us', 'room_ns', 'concurrency',
  'paused', 'full_us', 'full_ns', 'settings' }
local function topic(tno)
  local found, t = call('HMGET', of_topic(tno, 's'), unpack(FIELDS)), { tno = tno }
  for i, name in ipairs(FIELDS) do t[name] = found[i] end
  if not t.name then return nil end
  for _, name in ipairs({ 'gap_us', 'gap_ns', 'room_us', 'room_ns', 'full_us', 'full_ns' }) do
    t[name] = tonumber(t[name] or 0)
  end
  return t
end

-- When the bucket of tokens has its next one.
local function next_token(t)
  local us, ns = t.full_us + t.gap_us - t.room_us, t.full_ns + t.gap_ns - t.room_ns
  while ns < 0 do us, ns = us - 1, ns + 1000 end
  while ns >= 1000 do us, ns = us + 1, ns - 1000 end
  if ns > 0 then us = us + 1 end
  return math.max(us, 0)
end

local function may_hand_out(t)
  if t.paused and (t.paused == 'ever' or tonumber(t.paused) > tick) then return false end
  if t.concurrency and call('ZCARD', of_topic(t.tno, 'v')) >= tonumber(t.concurrency) then return false end
  if t.gap_us > 0 or t.gap_ns > 0 then
    local at = next_token(t)
    if at > tick then
      if opens < 0 or at < opens then opens = at end
      return false
    end
  end
  return true
end

local function has_room(to)
  if not room then return true end
  return (room.to[to] or room.each_to) > 0
end

local function first(t, what) return call('ZRANGE', of_topic(t.tno, what), 0, 0)[1] end

local function sooner(a, b)
  if not a then return b end
  if not b or before(a, b) then return a end
  return b
end

-- The first ready job of a topic with a target of its own that finds room.
local function first_with_target(t)
  if not room then return first(t, 'y1') end
  local best = nil
  for _, to in ipairs(call('SMEMBERS', of_topic(t.tno, 'yd'))) do
    if has_room(to) then best = sooner(best, first(t, 'y:' .. to)) end
  end
  return best
end

local function head(t)
  if lane == '0' then return not t.to and first(t, 'y0') or nil end
  if room and (room.topic[t.name] or room.each_topic) <= 0 then return nil end
  local own = first_with_target(t)
  if t.to and has_room(t.to) then return sooner(own, first(t, 'y0')) end
  return own
end

local function take_token(t)
  if t.gap_us == 0 and t.gap_ns == 0 then return end
  if t.full_us < tick then t.full_us, t.full_ns = tick, 0 end
  t.full_us, t.full_ns = t.full_us + t.gap_us, t.full_ns + t.gap_ns
  if t.full_ns >= 1000 then t.full_us, t.full_ns = t.full_us + 1, t.full_ns - 1000 end
  call('HSET', of_topic(t.tno, 's'), 'full_us', text(t.full_us), 'full_ns', text(t.full_ns))
end

local function take_room(t, j)
  if not room then return end
  local to = has_target(j) == 1 and j.to or t.to
  room.to[to] = (room.to[to] or room.each_to) - 1
  room.topic[t.name] = (room.topic[t.name] or room.each_topic) - 1
end

local function lease_ms(ttr, t)
  local grace = tonumber(ARGV[9])
  if grace < 0 then return ttr end
  return math.min(math.min(ttr, tonumber(t.timeout or ARGV[10])) + grace, MOST)
end

local function hand_out(t, found)
  local j = load(string.sub(found, 13))
  local ready_since, ttr = j.at, tonumber(ARGV[7])
  if ttr == 0 then ttr = j.ttr end
  if ttr == 0 then ttr = tonumber(t.ttr or ARGV[8]) end
  take_token(t)
  take_room(t, j)
  leave(j)
  j.st, j.version, j.attempt = RESERVED, j.version + 1, j.attempt + 1
  j.hand_outs, j.reserves = j.hand_outs + 1, j.reserves + 1
  j.at = tick + lease_ms(ttr, t) * 1000
  local lease = string.sub(redis.sha1hex(ARGV[5] .. j.n), 1, 16)
  j.hold = lease .. pack('>I8I8', tick, ttr) .. ARGV[6]
  stand(j)
  local bytes = stored(j)
  call('HSET', B .. 'jobs', j.n, bytes)
  answers[#answers + 1] = { j.n, bytes, text(ready_since), t.settings or '' }
end

-- The topics that are asked for, and 1 if a lease of theirs ran out.
local function asked_for()
  local topics, ran_out = {}, '0'
  if ARGV[11] == '1' then
    for _, tno in ipairs(call('SMEMBERS', B .. 'ready')) do topics[#topics + 1] = topic(tno) end
    return topics, ran_out
  end
  for i = 13, 12 + ARGV[12] do
    local tno = number_of(ARGV[i])
    local t = tno and topic(tno)
    if t then
      -- Timers see to idle topics; this one is asked for.
      promote(tno, 100, answers[4])
      local first_lease = call('ZRANGE', of_topic(tno, 'v'), 0, 0, 'WITHSCORES')[2]
      if first_lease and tonumber(first_lease) <= tick then ran_out = '1' end
      topics[#topics + 1] = t
    end
  end
  return topics, ran_out
end

local function best_of(topics)
  local best, from = nil, nil
  for _, t in ipairs(topics) do
    local found = head(t)
    if found and (not best or before(found, best)) and may_hand_out(t) then best, from = found, t end
  end
  return best, from
end

register('pop', ALWAYS, function()
  lane, room, opens, answers = ARGV[3], read_room(13 + ARGV[12]), -1, { clock, '-1', '0', {} }
  local topics, ran_out = asked_for()
  for _ = 1, ARGV[4] do
    local best, from = best_of(topics)
    if not best then break end
    hand_out(from, best)
  end
  answers[2], answers[3] = text(opens), ran_out
  return answers
end)
end
