-- Leases ready jobs, the best first: by priority, then due, then number, over all topics asked for.
--
-- ARGV[3]  lane: 0 pull, 1 push              ARGV[4]  at most so many
-- ARGV[5]  leases, 16 bytes each             ARGV[6]  the owner, 8 bytes
-- ARGV[7]  ttr of these terms, or 0          ARGV[8]  ttr where nobody says
-- ARGV[9]  how much longer a lease lasts than an attempt, or -1     ARGV[10]  the longest attempt
-- ARGV[11] 1 for any topic, else 0, and then as many topics as ARGV[12] says from ARGV[13] on;
-- then, if there is room for some only: for each destination, for each topic, and how many pairs
-- of destination and room follow; after them, pairs of topic and room
-- Answers  the clock, when the rate of a topic lets something out again or -1, 1 if a lease ran out,
--          when each job that is ready now was due, the settings of topics, how many entries without a job
--          were dropped, then of each job two:
--          number, since when it was ready and whose of these settings (2 bytes); job
do
-- No lease is stored that lasts longer than a ttr may be.
local MOST = 604800000
-- How a job begins that is reserved, and its hold: a token of 16 bytes, since when, for how long, whose.
local AS_RESERVED, HOLD_BYTES = '\6', '\40'
-- Of the call under way; `ahead` is what was read of lines, `part` how much is read at once, `changed` the
-- jobs that are handed out.
local lane, most, room, opens, answers, count, ahead, part, changed

-- For how many there is room, if for some only.
local function read_room(at)
  if not ARGV[at] then return nil end
  local found = { each_to = tonumber(ARGV[at]), each_topic = tonumber(ARGV[at + 1]), to = {}, topic = {} }
  local pairs_end = at + 2 + 2 * ARGV[at + 2]
  for i = at + 3, pairs_end, 2 do found.to[ARGV[i]] = tonumber(ARGV[i + 1]) end
  for i = pairs_end + 1, #ARGV, 2 do found.topic[ARGV[i]] = tonumber(ARGV[i + 1]) end
  return found
end

local function topic(tno)
  local found = call('HMGET', of_topic(tno, 's'), 'name', 'to', 'ttr', 'timeout', 'gap_us', 'gap_ns', 'room_us',
    'room_ns', 'concurrency', 'paused', 'full_us', 'full_ns', 'settings')
  if not found[1] then return nil end
  local t = {
    tno = tno,
    name = found[1],
    to = found[2],
    ttr = found[3],
    timeout = found[4],
    concurrency = found[9],
    paused = found[10],
    settings = found[13],
    leases = {},
  }
  if found[5] or found[6] then
    t.gap_us, t.gap_ns = tonumber(found[5] or 0), tonumber(found[6] or 0)
    t.room_us, t.room_ns = tonumber(found[7] or 0), tonumber(found[8] or 0)
    t.full_us, t.full_ns = tonumber(found[11] or 0), tonumber(found[12] or 0)
    t.rated = t.gap_us > 0 or t.gap_ns > 0
  end
  if t.concurrency then t.free = t.concurrency - call('ZCARD', of_topic(tno, 'v')) end
  t.limited = t.free or t.paused or t.rated
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
  if not t.limited then return true end
  if t.paused and (t.paused == 'ever' or tonumber(t.paused) > tick) then return false end
  if t.free and t.free <= 0 then return false end
  if t.rated then
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

-- Reads on in a line: nothing of it is written yet, so that those taken are still there.
local function read_line(line)
  local places = call('ZRANGE', line.key, line.next, line.next + part - 1)
  line.at, line.places, line.numbers, line.next = 1, places, {}, line.next + #places
  for i, found in ipairs(places) do line.numbers[i] = sub(found, 13) end
  if places[1] then line.jobs = call('HMGET', JOBS, unpack(line.numbers)) end
end

-- The line, if there is one in it that is not taken: `place` is where the first stands.
local function line_of(t, what, to)
  local key = of_topic(t.tno, what)
  local line = ahead[key]
  if not line then
    line = { key = key, t = t, next = 0 }
    ahead[key] = line
    read_line(line)
  end
  while true do
    line.place = line.places[line.at]
    if not line.place then
      if #line.places < part then return nil end
      read_line(line)
    elseif line.jobs[line.at] then
      return line
    else
      if not lines[key] then lines[key] = { tno = t.tno, to = to } end
      drop_stray(key, line.place)
      line.at = line.at + 1
    end
  end
end

local function sooner(a, b)
  if not a then return b end
  if not b or before(a.place, b.place) then return a end
  return b
end

-- The first ready job of a topic with a target of its own that finds room.
local function first_with_target(t)
  if not room then return line_of(t, 'y1') end
  local best = nil
  for _, to in ipairs(call('SMEMBERS', of_topic(t.tno, 'yd'))) do
    if has_room(to) then best = sooner(best, line_of(t, 'y:' .. to, to)) end
  end
  return best
end

local function head(t)
  if lane == '0' then return not t.to and line_of(t, 'y0') or nil end
  if room and (room.topic[t.name] or room.each_topic) <= 0 then return nil end
  local own = first_with_target(t)
  if t.to and has_room(t.to) then return sooner(own, line_of(t, 'y0')) end
  return own
end

local function take_token(t)
  if not t.rated then return end
  if t.full_us < tick then t.full_us, t.full_ns = tick, 0 end
  t.full_us, t.full_ns = t.full_us + t.gap_us, t.full_ns + t.gap_ns
  if t.full_ns >= 1000 then t.full_us, t.full_ns = t.full_us + 1, t.full_ns - 1000 end
  hset(of_topic(t.tno, 's'), 'full_us', text(t.full_us))
  hset(of_topic(t.tno, 's'), 'full_ns', text(t.full_ns))
end

local function take_room(t, to)
  if not room then return end
  room.to[to] = (room.to[to] or room.each_to) - 1
  room.topic[t.name] = (room.topic[t.name] or room.each_topic) - 1
end

local function lease_ms(ttr, t)
  local grace = tonumber(ARGV[9])
  if grace < 0 then return ttr end
  return math.min(math.min(ttr, tonumber(t.timeout or ARGV[10])) + grace, MOST)
end

-- What leases of the same length have in common: their end, what a job's hold says after the token, and where
-- those that have them stand.
local function lease_of_length(t, ttr)
  local lease = { till = tick + lease_ms(ttr, t) * 1000, hold = pack('>I8I8', tick, ttr) .. ARGV[6] }
  lease.till_text, lease.reserved = text(lease.till), noted(added, of_topic(t.tno, 'v'))
  t.leases[ttr] = lease
  -- Somebody looks when the first lease ends, and from there on.
  if not t.first_end or lease.till < t.first_end then wake('tick', lease.till, t.tno) end
  return lease
end

-- Takes a job out of the lines; where it goes.
local function take(line, number, bytes)
  if byte(bytes, 2) % 2 == 1 then
    local j = parse(number, bytes)
    leave_ready(j)
    return j.to
  end
  local t = line.t
  if not line.left then
    local key = of_topic(t.tno, 'y0')
    if not lines[key] then lines[key] = { tno = t.tno, tells = true } end
    line.left = noted(taken, key)
  end
  line.left[#line.left + 1] = line.places[line.at]
  return t.to
end

local function hand_out(line)
  local t, number, bytes = line.t, line.numbers[line.at], line.jobs[line.at]
  local version, attempt, hand_outs, reserves, ready_since, ttr, _, _, _, id_bytes =
    read('>I8I4I4I4I8I8I4I8I8I2', bytes, 15)
  local id_end = 72 + id_bytes
  if ARGV[7] ~= '0' then ttr = tonumber(ARGV[7]) end
  if ttr == 0 then ttr = tonumber(t.ttr or ARGV[8]) end
  if t.limited then take_token(t) end
  take_room(t, take(line, number, bytes))
  line.at = line.at + 1
  if t.free then t.free = t.free - 1 end
  local lease = t.leases[ttr] or lease_of_length(t, ttr)
  local reserved = lease.reserved
  local last = #reserved
  reserved[last + 1], reserved[last + 2] = lease.till_text, number
  bytes = AS_RESERVED .. sub(bytes, 2, 14)
    .. pack('>I8I4I4I4I8', version + 1, attempt + 1, hand_outs + 1, reserves + 1, lease.till)
    .. sub(bytes, 43, id_end) .. HOLD_BYTES .. sub(ARGV[5], 16 * count + 1, 16 * count + 16) .. lease.hold
    .. sub(bytes, id_end + 2 + byte(bytes, id_end + 1))
  changed[2 * count + 1], changed[2 * count + 2] = number, bytes
  if not t.at then
    answers[5][#answers[5] + 1] = t.settings or ''
    t.at = #answers[5] - 1
  end
  answers[2 * count + 7], answers[2 * count + 8] = pack('>c8I8I2', number, ready_since, t.at), bytes
  count = count + 1
end

-- The topics that are asked for, and 1 if a lease of theirs ran out.
local function asked_for()
  local topics, ran_out = {}, '0'
  if ARGV[11] == '1' then
    local enough = math.max(100, most)
    for _, tno in ipairs(call('ZRANGEBYSCORE', B .. 'wall', '-inf', now, 'LIMIT', 0, 100)) do
      if #answers[4] < enough then promote(tonumber(tno), enough, answers[4]) end
    end
    write()
    for _, tno in ipairs(call('SMEMBERS', B .. 'ready')) do topics[#topics + 1] = topic(tonumber(tno)) end
    return topics, ran_out
  end
  for i = 13, 12 + ARGV[12] do
    local tno = number_of(ARGV[i])
    local t = tno and topic(tno)
    if t then
      -- Timers see to idle topics; this one is asked for.
      promote(tno, math.max(100, most), answers[4])
      t.first_end = tonumber(call('ZRANGE', of_topic(tno, 'v'), 0, 0, 'WITHSCORES')[2])
      if t.first_end and t.first_end <= tick then ran_out = '1' end
      topics[#topics + 1] = t
    end
  end
  write()
  return topics, ran_out
end

local function best_of(topics)
  local best = nil
  for _, t in ipairs(topics) do
    local found = head(t)
    if found and (not best or before(found.place, best.place)) and may_hand_out(t) then best = found end
  end
  return best
end

register('pop', ALWAYS, function()
  lane, most, room = ARGV[3], tonumber(ARGV[4]), read_room(13 + ARGV[12])
  opens, answers, count, ahead = -1, { clock, '-1', '0', {}, {}, 0 }, 0, {}
  local topics, ran_out = asked_for()
  part, changed = math.ceil(most / math.max(#topics, 1)), noted(put, JOBS)
  -- There is nothing else to choose from: one line only, and no limit that it comes to.
  local alone = lane == '0' and #topics == 1 and not topics[1].limited
  while count < most do
    local best = best_of(topics)
    if not best then break end
    repeat hand_out(best) until count == most or not alone or not best.jobs[best.at]
  end
  -- Of what was made ready here nobody is told if it is handed out.
  for _, of in pairs(told) do
    for what in pairs(of) do of[what] = 'if' end
  end
  answers[2], answers[3], answers[6] = text(opens), ran_out, strays
  return answers
end)
end
