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
-- Of the call under way: the last job, counted in this bucket; which of how many that is; topics by name; the
-- jobs that are added, and what is noted of ids.
local seq, bucket, buckets, topics, jobs, ids

-- A topic that has a number: what it says, and where jobs stand that are added to it.
local function know(t, tno)
  local s = of_topic(tno, 's')
  local found = call('HMGET', s, 'partitions', 'jobs_max', 'bytes_max', 'bytes')
  t.tno, t.s, t.mark = tno, s, pack('>I4', tno)
  t.parts, t.jobs_max, t.bytes_max, t.weighs = tonumber(found[1] or 1), found[2], found[3], found[4]
  t.delayed, t.soonest = noted(added, of_topic(tno, 'd')), LAST
end

local function topic_of(name)
  local t, tno = { added = 0, parts = 1 }, number_of(name)
  if tno then know(t, tno) end
  topics[name] = t
  return t
end

-- The job that a topic has under an id, or the topic that alone may have it.
local function conflicts(tno, all)
  local same = tno and among(all, tno)
  if same or ARGV[5] ~= '1' then return same, nil end
  return nil, hget(of_topic(read('>I4', all), 's'), 'name')
end

-- For how many jobs a topic has room. It is counted before this call changes anything in it.
local function room_of(t)
  if not t.room then t.room = t.jobs_max - jobs_of(t.tno) end
  return t.room
end

-- The limit that a new body, in place of that of a job or beside the others, would make a topic go beyond.
local function too_heavy(t, same, tail)
  local grows = body_bytes(tail, 1) + (same and grown(hget(JOBS, same), nil) or 0)
  return grows > 0 and (hget(t.s, 'bytes') or 0) + grows > tonumber(t.bytes_max) and t.bytes_max
end

-- Has a new job stand where it belongs; its state, and since when.
local function stand_new(t, number, due, held, flags, priority, to)
  if held == 0 and due > now then
    local last = #t.delayed
    if due ~= t.due then t.due, t.due_text = due, text(due) end
    t.delayed[last + 1], t.delayed[last + 2] = t.due_text, number
    if due < t.soonest then
      t.soonest = due
      wake('wall', due, t.tno)
    end
    return DELAYED, 0
  end
  local j = { n = number, st = HELD, flags = flags, priority = priority, due = due, at = 0, tno = t.tno, to = to }
  if held == 0 then
    j.st, j.at = READY, tick
    zadd(of_topic(t.tno, 'o'), due, number)
  end
  stand(j)
  return j.st, j.at
end

-- This call has had the id already: what it added may be read.
local function note_jobs()
  for i = #jobs, 1, -2 do
    hset(JOBS, jobs[i - 1], jobs[i])
    jobs[i - 1], jobs[i] = nil, nil
  end
end

-- `all` are the jobs that had its id before this call.
local function add(at, all)
  local id, to, tail = ARGV[at + 1], ARGV[at + 3], ARGV[at + 4]
  local on_conflict, kind, due, priority, flags, held, ttr, nonce, spread = read(NEW, ARGV[at + 2])
  local t = topics[ARGV[at]] or topic_of(ARGV[at])
  if ids[id] ~= nil then
    all = ids[id]
    note_jobs()
  end
  local how, same, other = 'n', nil, nil
  if all then same, other = conflicts(t.tno, all) end
  if on_conflict == 'f' then
    local bytes = same and hget(JOBS, same)
    return bytes and sub(bytes, 63, 70) == nonce and 'a' .. same .. bytes or 'u'
  end
  if t.parts ~= spread then return 'w' end
  if other then return 'o' .. other end
  if same then
    if on_conflict == 'r' then return 'x' end
    if on_conflict == 'k' then return 'k' .. same .. hget(JOBS, same) end
  elseif t.jobs_max and room_of(t) <= 0 then
    return 'l' .. pack('>I4', t.jobs_max)
  end
  local beyond = t.bytes_max and too_heavy(t, same, tail)
  if beyond then return 'm' .. beyond end
  if same then
    -- Whether there is room is asked before that changes it, and does not matter.
    if t.jobs_max then room_of(t) end
    remove(load(same))
    how, all = 'p', ids[id]
  elseif t.jobs_max then
    t.room = t.room - 1
  end
  if not t.tno then know(t, made(ARGV[at])) end
  if kind == 'd' then due = due == 0 and now or math.ceil(wall / 1000) + due end
  seq, t.added = seq + 1, t.added + 1
  local number = pack('>I8', seq * buckets + bucket)
  local st, since = stand_new(t, number, due, held, flags, priority, to)
  local bytes = pack(HEAD, st, flags, priority, due, 1, 0, 0, 0, since, ttr, t.tno, now, nonce) .. tail
  local last = #jobs
  jobs[last + 1], jobs[last + 2] = number, bytes
  if t.weighs then weigh(t.tno, nil, bytes) end
  ids[id] = all and all .. t.mark .. number or t.mark .. number
  return how .. number
end

register('add', {}, function()
  local answers, asked = { clock }, {}
  for at = 7, #ARGV, 5 do asked[#asked + 1] = ARGV[at] end
  local all = read_all(IDS, asked)
  seq, bucket, buckets, topics = tonumber(hget(META, 'seq') or 0), tonumber(ARGV[3]), tonumber(ARGV[4]), {}
  jobs, ids = noted(put, JOBS), noted(hashed, IDS)
  for i = 1, #asked do answers[i + 1] = add(5 * i + 1, all[i]) end
  hset(META, 'seq', seq)
  for _, t in pairs(topics) do
    if t.added > 0 then hincr(t.s, 'added', t.added) end
  end
  return answers
end)
end
