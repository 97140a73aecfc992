-- Finishes jobs, each by itself, that are gone by it: the others are left to the long way.
--
-- ARGV[3]  how long finished jobs are kept where nobody says, in ms, or empty
-- ARGV[4…] of each job: `n` and its number, or `k`, topic, line end and id; then the lease or nothing
-- Answers  the clock, then of each job: `d`one, its number, attempts (4 bytes)
--          and for how many µs it was reserved; `n`ot found; `l`ease lost;
--          `s`low
do
local function keeps(ms) return ms and ms ~= '' and ms ~= '0' end

-- Of the call under way: jobs that were looked at, false if they are gone by now; and their topics.
local glanced, topics

local function job_of(number)
  local j = glanced[number]
  if j == nil then
    local bytes = hget(JOBS, number)
    j = bytes and glance(number, bytes)
    glanced[number] = j
  end
  return j
end

local function topic_of(tno)
  local found = call('HMGET', of_topic(tno, 's'), 'retain', 'archive', 'bytes', 'concurrency')
  local t = {
    slow = found[2] or keeps(found[1] or ARGV[3]),
    weighs = found[3],
    tells = found[4],
    begins = pack('>I4', tno),
    v = noted(sorted, of_topic(tno, 'v')),
    o = noted(sorted, of_topic(tno, 'o')),
  }
  topics[tno] = t
  return t
end

-- As `remove` does, of a job that is reserved.
local function see_off(j, t)
  local number = j.n
  t.v[number], t.o[number] = false, false
  -- Another may have its place.
  if t.tells then tell_ready(j.tno) end
  if t.weighs then weigh(j.tno, hget(JOBS, number), nil) end
  hdel(JOBS, number)
  drop_id(j.id, t.begins .. number)
  glanced[number] = false
  drop_if_nothing(j.tno)
end

local function finish(number, lease)
  local j = number and job_of(number)
  if not j then return 'n' end
  if j.st ~= RESERVED then return 's' end
  if lease ~= '' and (lease_of(j) ~= lease or j.at <= tick) then return 'l' end
  local t = topics[j.tno] or topic_of(j.tno)
  if t.slow or not is_plain(j) then return 's' end
  see_off(j, t)
  return pack('>c1c8I4I8', 'd', number, j.attempt, math.max(0, tick - read('>I8', j.hold, 17)))
end

-- The numbers of those that are asked for; false where there is none. All that is looked at is read together:
-- names, then jobs, then the ids of those that were called by number.
local function asked_for()
  local asked, named, ids, numbers = {}, {}, {}, {}
  for at = 4, #ARGV, 2 do
    local what, i = ARGV[at], at / 2 - 1
    if sub(what, 1, 1) == 'n' then
      asked[i] = sub(what, 2)
    else
      local line_end = string.find(what, '\n', 2, true)
      ids[#ids + 1] = sub(what, line_end + 1)
      named[i] = { topic = sub(what, 2, line_end - 1), id = ids[#ids] }
      asked[i] = false
    end
  end
  read_ahead(IDS, ids)
  for i, name in pairs(named) do
    local tno, all = number_of(name.topic), hget(IDS, name.id)
    asked[i] = tno and all and among(all, tno) or false
  end
  for i = 1, #asked do if asked[i] then numbers[#numbers + 1] = asked[i] end end
  read_ahead(JOBS, numbers)
  ids = {}
  for i = 1, #asked do
    local j = asked[i] and not named[i] and job_of(asked[i])
    if j then ids[#ids + 1] = j.id end
  end
  read_ahead(IDS, ids)
  return asked
end

register('finish', ALWAYS, function()
  local answers = { clock }
  glanced, topics = {}, {}
  for i, number in ipairs(asked_for()) do answers[i + 1] = finish(number, ARGV[2 * i + 3]) end
  return answers
end)
end
