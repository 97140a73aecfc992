-- What all moves share. They are one library of functions, loaded once: a script would make all of this
-- anew at every call.
--
-- Of every function:
-- KEYS[1]  the bucket's beginning, such as `linger:{17}:`. Every other key is made from it, and so
--          lies in the same slot.
-- ARGV[1]  the time as `wall:tick` in microseconds, which only tests give: else it is Redis's own.
-- ARGV[2]  topics that somebody waits for, one a line: they stay though nothing is in them.
--
-- Keys of a bucket:
--   jobs    hash: number (8 bytes) -> job, see `parse`
--   ids     hash: id -> topic (4 bytes) and number of each job that has it
--   names   hash: topic's name -> its number here       topics  zset: the names, in their order
--   meta    hash: `seq` the last job, `topic` the last topic
--   ready   set: topics with ready jobs
--   wall, tick  zset: topics by when the clock next brings them something, or earlier
-- Keys of a topic, which begin with `t` and its number:
--   s       hash: what is known of it; `bytes` of it is how much the bodies of its jobs take, of those
--           topics alone that have a limit of it
--   d r h v x f  zset: jobs delayed, in retry, held, reserved, dead, finished, in their order
--   y0 y1   zset: places of ready jobs without and with a target of their own
--   y:DEST  zset: places of those for one destination   yd  set: these destinations
--   o       zset: jobs that do not wait, by due time
--   u       zset: finished jobs by when they go         e   hash: errors of dead jobs -> count
-- Channels of a bucket:
--   wake    a topic has something ready: `0` for those who pop or `1` for those who push, and its name
--   time    a clock brings something sooner than before: `wall` or `tick`, a blank, and when
-- Not there yet while the library is loaded.
local call, pack, read, sub, byte, char, format
local DELAYED, RETRY, HELD, HELD_RETRY, READY, RESERVED, DEAD, FINISHED = 1, 2, 3, 4, 5, 6, 7, 8
local STAGE = { 'd', 'r', 'h', 'h', 'y', 'v', 'x', 'f' }
-- Beyond this numbers are no longer exact.
local LAST = 9007199254740991

-- Numbers are answered as text: as numbers they would be cut to what Lua takes for one.
local function text(number) return format('%d', number) end

-- Of the call under way: the bucket's beginning, the arguments, and what the clocks show.
local B, ARGV, wall, tick, now, clock

-- What the call under way changes is noted, and written at its end or when somebody has to read it: each
-- key once, not once for each job.
local sorted, hashed, known, woken, lines, told, over, strays
-- The keys that it names: of the bucket, and of topics.
local JOBS, IDS, META, of_topics

local function noted(all, key)
  local of = all[key]
  if not of then
    of = {}
    all[key] = of
  end
  return of
end
local function note(all, key, member, value) noted(all, key)[member] = value end

-- What nobody reads again in the call under way: members after scores, or fields before values, as they are
-- written. It is written before what is noted.
local added, taken, put, cut

local function zadd(key, score, member) note(sorted, key, member, score) end
local function zrem(key, member) note(sorted, key, member, false) end
local function hset(key, field, value) note(hashed, key, field, value) end
local function hdel(key, field) note(hashed, key, field, false) end

-- Reads what was noted, or was read before, or stands there.
local function hget(key, field)
  local noted = hashed[key] and hashed[key][field]
  if noted ~= nil then return noted end
  local found = known[key] and known[key][field]
  if found == nil then
    found = call('HGET', key, field)
    note(known, key, field, found)
  end
  return found
end

-- Calls with all of these, some at a time: no call takes more.
local PART = 1000
local function in_parts(name, key, all)
  local sum = 0
  for at = 1, #all, PART do sum = sum + call(name, key, unpack(all, at, math.min(at + PART - 1, #all))) end
  return sum
end

-- Reads fields as they stand there, whatever is noted of them.
local function read_all(key, fields)
  if #fields == 0 then return {} end
  if #fields <= PART then return call('HMGET', key, unpack(fields)) end
  local all = {}
  for at = 1, #fields, PART do
    local found = call('HMGET', key, unpack(fields, at, math.min(at + PART - 1, #fields)))
    for i = 1, #found do all[at + i - 1] = found[i] end
  end
  return all
end

-- Reads fields ahead.
local function read_ahead(key, fields)
  local found = read_all(key, fields)
  for i = 1, #fields do note(known, key, fields[i], found[i]) end
end

local function hincr(key, field, by)
  local sum = (hget(key, field) or 0) + by
  hset(key, field, sum)
  return sum
end

local finish_call
local function register(name, flags, act)
  redis.register_function({
    function_name = 'LIBRARY_' .. name,
    flags = flags,
    callback = function(keys, args)
      call, pack, read, B, ARGV = redis.call, struct.pack, struct.unpack, keys[1], args
      sub, byte, char, format = string.sub, string.byte, string.char, string.format
      JOBS, IDS, META, of_topics = B .. 'jobs', B .. 'ids', B .. 'meta', {}
      if args[1] == '' then
        local time = call('TIME')
        wall = time[1] * 1000000 + time[2]
        tick = wall
      else
        local a, b = string.match(args[1], '^(%d+):(%d+)$')
        wall, tick = tonumber(a), tonumber(b)
      end
      now = math.floor(wall / 1000)
      clock = { text(wall), text(tick) }
      sorted, hashed, known, lines, told, over, strays = {}, {}, {}, {}, {}, {}, 0
      added, taken, put, cut = {}, {}, {}, {}
      woken = { wall = {}, tick = {} }
      local answer = act()
      finish_call()
      return answer
    end,
  })
end
-- It makes room, or is what people look with when there is none. The others are refused when the
-- server's memory is used up: before they begin, and not in the midst of a move.
local ALWAYS = { 'allow-oom' }

local function of_topic(tno, what)
  local keys = of_topics[tno]
  if not keys then
    keys = {}
    of_topics[tno] = keys
  end
  local key = keys[what]
  if not key then
    key = B .. 't' .. tno .. ':' .. what
    keys[what] = key
  end
  return key
end

-- A job as it is stored: head, then texts with their lengths in front, then what only callers know. All of
-- it is read where it matters little; `hand_out` and `make_ready` put what they change into its place.
local HEAD = '>BBI4I8I8I4I4I4I8I8I4I8c8I2'
local function parse(number, stored)
  local j, at = { n = number }, nil
  j.st, j.flags, j.priority, j.due, j.version, j.attempt, j.hand_outs, j.reserves, j.at, j.ttr, j.tno,
    j.created, j.nonce, j.id, j.hold, j.life, j.to, j.error, at =
    read('>BBI4I8I8I4I4I4I8I8I4I8c8I2c0Bc0Bc0I2c0I2c0', stored)
  j.rest = sub(stored, at)
  return j
end

local function stored(j)
  return pack(HEAD, j.st, j.flags, j.priority, j.due, j.version, j.attempt, j.hand_outs, j.reserves,
      j.at, j.ttr, j.tno, j.created, j.nonce, #j.id) .. j.id
    .. pack('B', #j.hold) .. j.hold .. pack('B', #j.life) .. j.life
    .. pack('>I2', #j.to) .. j.to .. pack('>I2', #j.error) .. j.error .. j.rest
end

-- Where a stored job has how often it was handed out and what follows, and its id with the length in front.
local COUNTS_AT, ID_AT = 23, 71

-- The token of a reserved job's lease, and where that ends.
local function lease_of(bytes)
  local from = ID_AT + 3 + read('>I2', bytes, ID_AT)
  return sub(bytes, from, from + 15), from + 16
end

local function load(number)
  local found = hget(JOBS, number)
  return found and parse(number, found)
end

local function save(j) hset(JOBS, j.n, stored(j)) end

-- A job that cannot be read weighs nothing: it is not to keep others from anything.
local function weight(bytes)
  local fine, weight = pcall(body_bytes, bytes, ID_AT)
  return fine and weight or 0
end

-- How much more the one body takes than the other; either may not be there.
local function grown(was, is) return (is and weight(is) or 0) - (was and weight(was) or 0) end

-- Has a topic take so much more or less, if that is counted.
local function weigh(tno, was, is)
  local s = of_topic(tno, 's')
  if hget(s, 'bytes') then hincr(s, 'bytes', grown(was, is)) end
end

-- An entry that stands for no job.
local function drop_stray(key, member)
  zrem(key, member)
  strays = strays + 1
end

local function has_target(j) return j.flags % 2 end
local function is_plain(flags) return flags % 4 >= 2 end
local function has_error(j) return math.floor(j.flags / 4) % 2 == 1 end

-- Texts are compared by the server's locale: bytes are not to be.
local function before(a, b)
  local a1, a2, a3 = read('>I4I8I8', a)
  local b1, b2, b3 = read('>I4I8I8', b)
  if a1 ~= b1 then return a1 < b1 end
  if a2 ~= b2 then return a2 < b2 end
  return a3 < b3
end
local function as_number(bytes) return (read('>I8', bytes)) end

local function place(j) return pack('>I4I8', j.priority, j.due) .. j.n end

-- What a stage is sorted by. Jobs that are reserved: until when. Dead and finished: since when.
local function score(j)
  if j.st <= HELD_RETRY then return j.due end
  return j.at
end

-- Has the clock looked at, at this moment or sooner.
local function wake(clock_name, at, tno)
  local of = woken[clock_name]
  if not of[tno] or at < of[tno] then of[tno] = at end
end

-- Who waits for a topic's jobs is told at the end: of those without a target of their own (`y0`) and of those
-- with one (`y1`), 'certain' that there are some, or if there are.
local function tell(tno, what, how)
  if not told[tno] then told[tno] = {} end
  if told[tno][what] ~= 'certain' then told[tno][what] = how end
end
local function tell_ready(tno)
  tell(tno, 'y0', 'if')
  tell(tno, 'y1', 'if')
end

-- When a finished job goes: the start of its hold.
local function kept_until(j) return as_number(j.hold) end

-- The lines that a ready job stands in: the second only if it has a target of its own.
local function lines_of(j)
  local own = has_target(j)
  local all, mine = of_topic(j.tno, 'y' .. own), nil
  if not lines[all] then lines[all] = { tno = j.tno, tells = own == 0 } end
  if own == 1 then
    mine = of_topic(j.tno, 'y:' .. j.to)
    if not lines[mine] then lines[mine] = { tno = j.tno, tells = true, to = j.to } end
  end
  return all, mine
end

local function stand_ready(j)
  local all, mine = lines_of(j)
  zadd(all, 0, place(j))
  if mine then zadd(mine, 0, place(j)) end
end

local function leave_ready(j)
  local all, mine = lines_of(j)
  zrem(all, place(j))
  if mine then zrem(mine, place(j)) end
end

-- Puts a job into every order it belongs to; `o` alone is left to those who call.
local function stand(j)
  if j.st == READY then return stand_ready(j) end
  zadd(of_topic(j.tno, STAGE[j.st]), score(j), j.n)
  if j.st <= RETRY then
    wake('wall', j.due, j.tno)
  elseif j.st == RESERVED then
    wake('tick', j.at, j.tno)
  elseif j.st == FINISHED then
    zadd(of_topic(j.tno, 'u'), kept_until(j), j.n)
    wake('wall', kept_until(j), j.tno)
  elseif j.st == DEAD then
    if has_error(j) then hincr(of_topic(j.tno, 'e'), j.error, 1) end
    local keeps = hget(of_topic(j.tno, 's'), 'retain_dead')
    if keeps then wake('wall', j.at + keeps, j.tno) end
  end
end

local function leave(j)
  if j.st == READY then return leave_ready(j) end
  zrem(of_topic(j.tno, STAGE[j.st]), j.n)
  if j.st == RESERVED then
    -- Another may have its place.
    if hget(of_topic(j.tno, 's'), 'concurrency') then tell_ready(j.tno) end
  elseif j.st == FINISHED then
    zrem(of_topic(j.tno, 'u'), j.n)
  elseif j.st == DEAD and has_error(j) then
    local errors = of_topic(j.tno, 'e')
    if hincr(errors, j.error, -1) <= 0 then hdel(errors, j.error) end
  end
end

local function waits(j) return j.st <= HELD_RETRY end

-- Moves a job from what it was to what it is.
local function move(was, is)
  leave(was)
  if not waits(was) and (waits(is) or was.due ~= is.due) then
    zrem(of_topic(was.tno, 'o'), was.n)
  end
  if not waits(is) and (waits(was) or was.due ~= is.due) then
    zadd(of_topic(is.tno, 'o'), is.due, is.n)
  end
  stand(is)
  save(is)
end

local function entry(j) return pack('>I4', j.tno) .. j.n end

-- The number of a topic's job among all that have an id.
local function among(all, tno)
  for at = 1, #all, 12 do
    if read('>I4', all, at) == tno then return sub(all, at + 4, at + 11) end
  end
end

-- Forgets that an id stands for this entry.
local function drop_id(id, this)
  local all = hget(IDS, id)
  if all == this then
    hdel(IDS, id)
  elseif all then
    for at = 1, #all, 12 do
      if sub(all, at, at + 11) == this then
        hset(IDS, id, sub(all, 1, at - 1) .. sub(all, at + 12))
        break
      end
    end
  end
end

local function remove(j)
  leave(j)
  if not waits(j) then zrem(of_topic(j.tno, 'o'), j.n) end
  weigh(j.tno, hget(JOBS, j.n), nil)
  hdel(JOBS, j.n)
  drop_id(j.id, entry(j))
end

local function waited_for(name)
  for line in string.gmatch(ARGV[2], '[^\n]+') do
    if line == name then return true end
  end
  return false
end

-- A topic goes when no job, setting, pause or waiting call names it any more.
local function drop_if_nothing(tno) over[tno] = true end

local function has_jobs(tno)
  return call('EXISTS', of_topic(tno, 'd'), of_topic(tno, 'r'), of_topic(tno, 'h'), of_topic(tno, 'o')) > 0
end

local function jobs_of(tno)
  local jobs = 0
  for _, kind in ipairs({ 'd', 'r', 'h', 'o' }) do jobs = jobs + call('ZCARD', of_topic(tno, kind)) end
  return jobs
end

-- What the bodies of a topic's jobs take, looked at one by one.
local function bytes_of(tno)
  local sum = 0
  for _, kind in ipairs({ 'd', 'r', 'h', 'o' }) do
    local from, found = 0, nil
    repeat
      found = call('ZRANGE', of_topic(tno, kind), from, from + PART - 1)
      from = from + PART
      for _, number in ipairs(found) do sum = sum + grown(nil, call('HGET', JOBS, number)) end
    until #found < PART
  end
  return sum
end

local function drop_now(tno)
  local s = of_topic(tno, 's')
  if has_jobs(tno) then return end
  local name, settings, paused = unpack(call('HMGET', s, 'name', 'settings', 'paused'))
  if not name or settings or paused or waited_for(name) then return end
  call('DEL', s)
  call('HDEL', B .. 'names', name)
  call('ZREM', B .. 'topics', name)
  call('ZREM', B .. 'wall', tno)
  call('ZREM', B .. 'tick', tno)
end

local function has_ready(tno) return call('EXISTS', of_topic(tno, 'y0'), of_topic(tno, 'y1')) > 0 end

-- A line that had nothing tells those who wait; one that has nothing any more is not looked at.
local function see_to_line(key, line, new)
  local there = call('ZCARD', key)
  if there == 0 then
    if line.to then call('SREM', of_topic(line.tno, 'yd'), line.to) end
    if not has_ready(line.tno) then call('SREM', B .. 'ready', line.tno) end
  elseif there == new then
    if line.to then call('SADD', of_topic(line.tno, 'yd'), line.to) end
    call('SADD', B .. 'ready', line.tno)
    if line.tells then tell(line.tno, line.to and 'y1' or 'y0', 'certain') end
  end
end

local function write_unread()
  for key, all in pairs(taken) do
    in_parts('ZREM', key, all)
    if lines[key] and not sorted[key] then see_to_line(key, lines[key], 0) end
  end
  for key, all in pairs(added) do in_parts('ZADD', key, all) end
  for key, all in pairs(put) do
    known[key] = nil
    in_parts('HSET', key, all)
  end
  for key, all in pairs(cut) do
    known[key] = nil
    in_parts('HDEL', key, all)
  end
  added, taken, put, cut = {}, {}, {}, {}
end

local function write_sorted(key, of)
  local gone, there, g, t = {}, {}, 0, 0
  for member, at in pairs(of) do
    if at then
      -- Given a number, Redis would write it as one that may have a fraction, which takes several times as long.
      there[t + 1], there[t + 2] = type(at) == 'number' and text(at) or at, member
      t = t + 2
    else
      g = g + 1
      gone[g] = member
    end
  end
  in_parts('ZREM', key, gone)
  local new = in_parts('ZADD', key, there)
  if lines[key] then see_to_line(key, lines[key], new) end
end

local function write_hashed(key, of)
  local gone, there, g, t = {}, {}, 0, 0
  for field, value in pairs(of) do
    if value then
      there[t + 1], there[t + 2] = field, type(value) == 'number' and text(value) or value
      t = t + 2
    else
      g = g + 1
      gone[g] = field
    end
  end
  known[key] = nil
  in_parts('HDEL', key, gone)
  in_parts('HSET', key, there)
end

-- Timers that sleep longer are told until when they may.
local function write_wakes(clock_name)
  for tno, at in pairs(woken[clock_name]) do
    if call('ZADD', B .. clock_name, 'LT', 'CH', text(at), tno) == 1 and call('ZRANK', B .. clock_name, tno) == 0 then
      call('SPUBLISH', B .. 'time', clock_name .. ' ' .. text(at))
    end
  end
  woken[clock_name] = {}
end

-- Writes what was noted so far.
local function write()
  write_unread()
  for key, of in pairs(sorted) do write_sorted(key, of) end
  for key, of in pairs(hashed) do write_hashed(key, of) end
  write_wakes('wall')
  write_wakes('tick')
  sorted, hashed = {}, {}
end

-- Those who pop are told (0), or those who push (1).
local function tell_of(tno, of)
  local function has(what) return of[what] == 'certain' or of[what] and call('EXISTS', of_topic(tno, what)) == 1 end
  local plain, own = has('y0'), has('y1')
  if not plain and not own then return end
  local name, to = unpack(call('HMGET', of_topic(tno, 's'), 'name', 'to'))
  if plain and not to then call('SPUBLISH', B .. 'wake', '0' .. name) end
  if own or plain and to then call('SPUBLISH', B .. 'wake', '1' .. name) end
end

finish_call = function()
  write()
  for tno, of in pairs(told) do tell_of(tno, of) end
  for tno in pairs(over) do drop_now(tno) end
end

local function number_of(name) return tonumber(hget(B .. 'names', name)) end

-- The topic's number, made if it is not there.
local function made(name)
  local tno = number_of(name)
  if tno then return tno end
  tno = hincr(META, 'topic', 1)
  hset(B .. 'names', name, text(tno))
  zadd(B .. 'topics', 0, name)
  hset(of_topic(tno, 's'), 'name', name)
  hset(of_topic(tno, 's'), 'added', '0')
  return tno
end

-- The number of a job that is named by it (`n`), or by topic and id (`k`): two arguments after the kind, in
-- any case.
local function number_at(at)
  if ARGV[at] == 'n' then return ARGV[at + 1] end
  local tno = number_of(ARGV[at + 1])
  local all = tno and hget(IDS, ARGV[at + 2])
  return all and among(all, tno)
end

-- Does something with jobs of an order up to a score, so many at most; whether there may be more.
local function each_until(key, to, most, act)
  local found = call('ZRANGEBYSCORE', key, '-inf', to, 'LIMIT', 0, most)
  if #found == 0 then return false end
  read_ahead(JOBS, found)
  for _, number in ipairs(found) do
    local bytes = hget(JOBS, number)
    if bytes then act(number, bytes) else drop_stray(key, number) end
  end
  return #found == most
end

local function remove_each(number, bytes) remove(parse(number, bytes)) end

-- A job that is due is ready, since now.
local function make_ready(tno, number, bytes)
  local flags, priority, due = read('>BI4I8', bytes, 2)
  local j = { n = number, flags = flags, priority = priority, due = due, tno = tno }
  if has_target(j) == 1 then j.to = parse(number, bytes).to end
  zadd(of_topic(tno, 'o'), due, number)
  stand_ready(j)
  hset(JOBS, number, char(READY) .. sub(bytes, 2, 34) .. pack('>I8', tick) .. sub(bytes, 43))
  return due
end

-- Makes jobs of a topic ready that are due, so many at most of a kind; whether there may be more.
local function promote(tno, most, dues)
  local function promote_of(kind)
    local key = of_topic(tno, kind)
    return each_until(key, now, most, function(number, bytes)
      zrem(key, number)
      dues[#dues + 1] = text(make_ready(tno, number, bytes))
    end)
  end
  local more = promote_of('d')
  return promote_of('r') or more
end
