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

-- Of each that is asked for: its number or false, and if it was named its id and all that have that.
local function asked_for()
  local numbers, ids, names, named, n = {}, {}, {}, {}, 0
  for at = 4, #ARGV, 2 do
    local what, i = ARGV[at], at / 2 - 1
    numbers[i], ids[i] = false, false
    -- `n`
    if byte(what) == 110 then
      numbers[i] = sub(what, 2)
    else
      local line_end = string.find(what, '\n', 2, true)
      n = n + 1
      ids[i], names[n], named[n] = sub(what, line_end + 1), sub(what, 2, line_end - 1), i
    end
  end
  local wanted = {}
  for k = 1, n do wanted[k] = ids[named[k]] end
  local found, all = read_all(IDS, wanted), {}
  for k = 1, n do
    local i, tno = named[k], number_of(names[k])
    all[i] = found[k]
    numbers[i] = tno and found[k] and among(found[k], tno) or false
  end
  return numbers, ids, all
end

register('finish', ALWAYS, function()
  local answers, numbers, wanted, unnamed = { clock }, {}, {}, {}
  local asked, ids, all = asked_for()
  gone, topics = {}, {}
  for i = 1, #asked do
    if asked[i] then numbers[#numbers + 1] = asked[i] end
  end
  -- All that is looked at is read together.
  local jobs, at = read_all(JOBS, numbers), 0
  for i = 1, #asked do
    if asked[i] then
      at = at + 1
      if not ids[i] then
        ids[i] = jobs[at] and read('>I2c0', jobs[at], ID_AT) or ''
        wanted[#wanted + 1], unnamed[#unnamed + 1] = ids[i], i
      end
    end
  end
  local found = read_all(IDS, wanted)
  for k = 1, #unnamed do all[unnamed[k]] = found[k] end
  at = 0
  for i = 1, #asked do
    if asked[i] then
      at = at + 1
      answers[i + 1] = finish(asked[i], jobs[at], ids[i], all[i], ARGV[2 * i + 3])
    else
      answers[i + 1] = 'n'
    end
  end
  return answers
end)
end
