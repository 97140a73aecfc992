-- Adds jobs, each by itself.
--
-- ARGV[3]  the bucket's number     ARGV[4]  how many there are
-- ARGV[5]  1 if an id may stand in one topic only
-- ARGV[6…] of each job: topic, id, `NEW`, destination, and how it is stored from the id on
-- Answers  the clock, then of each job: `n`ew or `p` (replaced) and number; `k`ept, or `a`dded by this very
--          call when it was made before, number and job; `x` already there; `o`ther topic that has the id,
--          its name; `u`nknown: this call's job is not there, or no more; `w`rong: the topic is spread over
--          another number of parts; `l`imit: the topic has as many jobs as it may, how many (4 bytes); `m`ore
--          bytes of bodies than the topic may have, how many
do
-- On conflict (`r`eject, `k`eep, `p` replace; `f` only finds what this very call added), `a`t or `d`elay,
-- milliseconds, priority, flags, 1 if held, own ttr, the call's nonce, over how many parts the topic is
-- spread.
local NEW = '>c1c1I8I4BBI8c8I2'
local HEAD = '>BBI4I8I8I4I4I4I8I8I4I8c8'
-- Of the call under way: the last job's number, the topics by name, how many are added to each, what
-- their numbers are in ids, over how many parts each is spread, and for how many jobs each has room.
local seq, topics, added, marks, parts, room

-- The job that a topic has under an id, or the topic that alone may have it.
local function conflicts(tno, all)
  if not all then return nil, nil end
  local same = tno and among(all, tno)
  if same or ARGV[5] ~= '1' then return same, nil end
  return nil, hget(of_topic(read('>I4', all), 's'), 'name')
end

local function parts_of(topic, tno)
  if not parts[topic] then
    if tno then read_ahead(of_topic(tno, 's'), { 'partitions', 'jobs_max', 'bytes_max', 'bytes' }) end
    parts[topic] = tno and tonumber(hget(of_topic(tno, 's'), 'partitions') or 1) or 1
  end
  return parts[topic]
end

-- Whether a topic has no room for one job more. It is counted before this call changes anything in it.
local function is_full(tno)
  if not tno then return false end
  if room[tno] == nil then
    local most = hget(of_topic(tno, 's'), 'jobs_max')
    room[tno] = most and most - jobs_of(tno) or false
  end
  return room[tno] and room[tno] <= 0
end

-- The limit that a new body, in place of that of a job or beside the others, would make a topic go beyond.
local function too_heavy(tno, same, tail)
  local s = tno and of_topic(tno, 's')
  local most = s and hget(s, 'bytes_max')
  if not most then return nil end
  local grows = body_bytes(tail, 1) + (same and grown(hget(JOBS, same), nil) or 0)
  return grows > 0 and (hget(s, 'bytes') or 0) + grows > tonumber(most) and most
end

local function add(at)
  local topic, id, new, to, tail = unpack(ARGV, at, at + 4)
  local on_conflict, kind, due, priority, flags, held, ttr, nonce, spread = read(NEW, new)
  local tno, all = topics[topic] or number_of(topic), hget(IDS, id)
  local how, same, other = 'n', conflicts(tno, all)
  if on_conflict == 'f' then
    local bytes = same and hget(JOBS, same)
    return bytes and sub(bytes, 63, 70) == nonce and 'a' .. same .. bytes or 'u'
  end
  if parts_of(topic, tno) ~= spread then return 'w' end
  if other then return 'o' .. other end
  if same then
    if on_conflict == 'r' then return 'x' end
    if on_conflict == 'k' then return 'k' .. same .. hget(JOBS, same) end
  elseif is_full(tno) then
    return 'l' .. pack('>I4', hget(of_topic(tno, 's'), 'jobs_max'))
  end
  local beyond = too_heavy(tno, same, tail)
  if beyond then return 'm' .. beyond end
  if same then
    -- Whether there is room is asked before that changes it, and does not matter.
    is_full(tno)
    remove(load(same))
    how, all = 'p', hget(IDS, id)
  end
  if how == 'n' and tno and room[tno] then room[tno] = room[tno] - 1 end
  if not topics[topic] then
    tno = tno or made(topic)
    topics[topic], added[tno], marks[tno] = tno, 0, pack('>I4', tno)
  end
  if kind == 'd' then due = due == 0 and now or math.ceil(wall / 1000) + due end
  seq, added[tno] = seq + 1, added[tno] + 1
  local number = pack('>I8', seq * ARGV[4] + ARGV[3])
  local j = { n = number, st = held == 1 and HELD or DELAYED, flags = flags, priority = priority, due = due,
    at = 0, tno = tno, to = to }
  if j.st == DELAYED and due <= now then
    j.st, j.at = READY, tick
    zadd(of_topic(tno, 'o'), due, number)
  end
  stand(j)
  local bytes = pack(HEAD, j.st, flags, priority, due, 1, 0, 0, 0, j.at, ttr, tno, now, nonce) .. tail
  hset(JOBS, number, bytes)
  weigh(tno, nil, bytes)
  hset(IDS, id, (all or '') .. marks[tno] .. number)
  return how .. number
end

register('add', {}, function()
  local answers, ids = { clock }, {}
  for at = 7, #ARGV, 5 do ids[#ids + 1] = ARGV[at] end
  read_ahead(IDS, ids)
  seq, topics, added, marks, parts, room = tonumber(hget(META, 'seq') or 0), {}, {}, {}, {}, {}
  for at = 6, #ARGV, 5 do answers[#answers + 1] = add(at) end
  hset(META, 'seq', seq)
  for tno, count in pairs(added) do hincr(of_topic(tno, 's'), 'added', count) end
  return answers
end)
end
