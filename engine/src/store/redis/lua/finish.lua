-- Finishes jobs, each by itself, that are gone by it: the others are left to the long way.
--
-- ARGV[3]  how long finished jobs are kept where nobody says, in ms, or empty
-- ARGV[4…] of each job: `n` and its number, or `k`, topic, line end and id; then the lease or nothing
-- Answers  the clock, then of each job: `d`one, its number, attempts (4 bytes)
--          and for how many µs it was reserved; `n`ot found; `l`ease lost;
--          `s`low
do
local function keeps(ms) return ms and ms ~= '' and ms ~= '0' end

-- Of the call under way: numbers of jobs that are gone by now, and their topics.
local gone, topics

local function topic_of(tno)
  local found = call('HMGET', of_topic(tno, 's'), 'retain', 'archive', 'bytes', 'concurrency')
  local t = {
    slow = found[2] or keeps(found[1] or ARGV[3]),
    weighs = found[3],
    tells = found[4],
    begins = pack('>I4', tno),
    v = noted(taken, of_topic(tno, 'v')),
    o = noted(taken, of_topic(tno, 'o')),
  }
  topics[tno] = t
  drop_if_nothing(tno)
  return t
end

-- As `remove` does, of a job that is reserved; `all` are those that have its id.
local function see_off(number, bytes, tno, t, id, all)
  t.v[#t.v + 1], t.o[#t.o + 1] = number, number
  -- Another may have its place.
  if t.tells then tell_ready(tno) end
  if t.weighs then weigh(tno, bytes, nil) end
  local jobs, ids = noted(cut, JOBS), noted(cut, IDS)
  jobs[#jobs + 1] = number
  local this = t.begins .. number
  if all == this then ids[#ids + 1] = id else drop_id(id, this) end
  gone[number] = true
end

local function finish(number, bytes, id, all, lease)
  if not bytes or gone[number] then return 'n' end
  local st, flags = byte(bytes, 1, 2)
  if st ~= RESERVED then return 's' end
  local attempt, _, _, till, _, tno = read('>I4I4I4I8I8I4', bytes, COUNTS_AT)
  local token, held_at = lease_of(bytes)
  if lease ~= '' and (token ~= lease or till <= tick) then return 'l' end
  local t = topics[tno] or topic_of(tno)
  if t.slow or not is_plain(flags) then return 's' end
  see_off(number, bytes, tno, t, id, all)
  local since = read('>I8', bytes, held_at)
  return pack('>c1c8I4I8', 'd', number, attempt, since < tick and tick - since or 0)
end

-- The numbers of those that are asked for; false where there is none.
local function asked_for()
  local asked, named, ids = {}, {}, {}
  for at = 4, #ARGV, 2 do
    local what, i = ARGV[at], at / 2 - 1
    -- `n`
    if byte(what) == 110 then
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
  return asked
end

register('finish', ALWAYS, function()
  local answers, asked, numbers, ids = { clock }, asked_for(), {}, {}
  gone, topics = {}, {}
  for i = 1, #asked do
    if asked[i] then numbers[#numbers + 1] = asked[i] end
  end
  -- All that is looked at is read together.
  local jobs = read_all(JOBS, numbers)
  for i = 1, #numbers do
    ids[i] = jobs[i] and read('>I2c0', jobs[i], ID_AT) or ''
  end
  local all, at = read_all(IDS, ids), 0
  for i = 1, #asked do
    if asked[i] then
      at = at + 1
      answers[i + 1] = finish(asked[i], jobs[at], ids[at], all[at], ARGV[2 * i + 3])
    else
      answers[i + 1] = 'n'
    end
  end
  return answers
end)
end
