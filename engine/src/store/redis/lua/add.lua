-- Adds jobs, each by itself.
--
-- ARGV[3]  the bucket's number     ARGV[4]  how many there are
-- ARGV[5]  1 if an id may stand in one topic only
-- ARGV[6…] of each job: topic, id, on conflict (`r`eject, `k`eep, `p` replace), `a`t or `d`elay,
--          milliseconds, priority, flags, 1 if held, own ttr, destination, rest
-- Answers  the clock, then of each job: `n`ew or `p` (replaced), number, due, stage, topic's number;
--          `k`ept, number, job; `x` already there; `o`ther topic that has the id, its name
do
-- The job that a topic has under an id, or the topic that alone may have it.
local function conflicts(tno, all)
  if not all then return nil, nil end
  local same = tno and among(all, tno)
  if same or ARGV[5] ~= '1' then return same, nil end
  return nil, call('HGET', of_topic(struct.unpack('>I4', all), 's'), 'name')
end

local function add(at)
  local topic, id, on_conflict, kind, ms, priority, flags, held, ttr, to, rest = unpack(ARGV, at, at + 10)
  local tno, all = number_of(topic), call('HGET', B .. 'ids', id)
  local how, same, other = 'n', conflicts(tno, all)
  if other then return { 'o', other } end
  if same then
    if on_conflict == 'r' then return { 'x' } end
    local old = load(same)
    if on_conflict == 'k' then return { 'k', same, stored(old) } end
    remove(old)
    how, all = 'p', call('HGET', B .. 'ids', id)
  end
  tno = tno or made(topic)
  local due = tonumber(ms)
  if kind == 'd' then due = due == 0 and now or math.ceil(wall / 1000) + due end
  local j = {
    n = pack('>I8', call('HINCRBY', B .. 'meta', 'seq', 1) * ARGV[4] + ARGV[3]),
    st = held == '1' and HELD or DELAYED, flags = tonumber(flags), priority = tonumber(priority), due = due,
    version = 1, attempt = 0, hand_outs = 0, reserves = 0, at = 0, ttr = tonumber(ttr), tno = tonumber(tno),
    created = now, id = id, hold = '', life = '', to = to, error = '', rest = rest,
  }
  if j.st == DELAYED and due <= now then
    j.st, j.at = READY, tick
    call('ZADD', of_topic(tno, 'o'), due, j.n)
  end
  stand(j)
  save(j)
  call('HSET', B .. 'ids', id, (all or '') .. entry(j))
  call('HINCRBY', of_topic(tno, 's'), 'added', 1)
  return { how, j.n, text(due), j.st, tno }
end

register('add', {}, function()
  local answers = { clock }
  for at = 6, #ARGV, 11 do answers[#answers + 1] = add(at) end
  return answers
end)
end
