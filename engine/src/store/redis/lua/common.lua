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
--   s       hash: what is known of it
--   d r h v x f  zset: jobs delayed, in retry, held, reserved, dead, finished, in their order
--   y0 y1   zset: places of ready jobs without and with a target of their own
--   y:DEST  zset: places of those for one destination   yd  set: these destinations
--   o       zset: jobs that do not wait, by due time
--   u       zset: finished jobs by when they go         e   hash: errors of dead jobs -> count
-- Not there yet while the library is loaded.
local call, pack
local DELAYED, RETRY, HELD, HELD_RETRY, READY, RESERVED, DEAD, FINISHED = 1, 2, 3, 4, 5, 6, 7, 8
local STAGE = { 'd', 'r', 'h', 'h', 'y', 'v', 'x', 'f' }
-- Beyond this numbers are no longer exact.
local LAST = 9007199254740991

-- Numbers leave as text: as numbers they would lose their fractions and what is over 2^53.
local function text(number) return string.format('%.0f', number) end

-- Of the call under way: the bucket's beginning, the arguments, and what the clocks show.
local B, ARGV, wall, tick, now, clock

local function register(name, flags, act)
  redis.register_function({
    function_name = 'LIBRARY_' .. name,
    flags = flags,
    callback = function(keys, args)
      call, pack, B, ARGV = redis.call, struct.pack, keys[1], args
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
      return act()
    end,
  })
end
-- It makes room, or is what people look with when there is none. The others are refused when the
-- server's memory is used up: before they begin, and not in the midst of a move.
local ALWAYS = { 'allow-oom' }

local function of_topic(tno, what) return B .. 't' .. tno .. ':' .. what end

-- A job as it is stored: head, then texts with their lengths in front, then what only callers know.
local HEAD = '>BBI4I8I8I4I4I4I8I8I4I8I2'
local function parse(number, stored)
  local j, at = { n = number }, nil
  j.st, j.flags, j.priority, j.due, j.version, j.attempt, j.hand_outs, j.reserves, j.at, j.ttr, j.tno,
    j.created, j.id, j.hold, j.life, j.to, j.error, at =
    struct.unpack('>BBI4I8I8I4I4I4I8I8I4I8I2c0Bc0Bc0I2c0I2c0', stored)
  j.rest = string.sub(stored, at)
  return j
end

local function stored(j)
  return pack(HEAD, j.st, j.flags, j.priority, j.due, j.version, j.attempt, j.hand_outs, j.reserves,
      j.at, j.ttr, j.tno, j.created, #j.id) .. j.id
    .. pack('B', #j.hold) .. j.hold .. pack('B', #j.life) .. j.life
    .. pack('>I2', #j.to) .. j.to .. pack('>I2', #j.error) .. j.error .. j.rest
end

local function load(number)
  local found = call('HGET', B .. 'jobs', number)
  return found and parse(number, found)
end

local function save(j) call('HSET', B .. 'jobs', j.n, stored(j)) end

local function has_target(j) return j.flags % 2 end
local function is_plain(j) return math.floor(j.flags / 2) % 2 == 1 end
local function has_error(j) return math.floor(j.flags / 4) % 2 == 1 end

-- Texts are compared by the server's locale: bytes are not to be.
local function before(a, b)
  local a1, a2, a3 = struct.unpack('>I4I8I8', a)
  local b1, b2, b3 = struct.unpack('>I4I8I8', b)
  if a1 ~= b1 then return a1 < b1 end
  if a2 ~= b2 then return a2 < b2 end
  return a3 < b3
end
local function as_number(bytes) return (struct.unpack('>I8', bytes)) end

local function place(j) return pack('>I4I8', j.priority, j.due) .. j.n end

-- What a stage is sorted by. Jobs that are reserved: until when. Dead and finished: since when.
local function score(j)
  if j.st <= HELD_RETRY then return j.due end
  return j.at
end

-- Has the clock looked at, at this moment or sooner; tells timers that sleep longer.
local function wake(clock_name, at, tno)
  if call('ZADD', B .. clock_name, 'LT', 'CH', at, tno) == 0 then return end
  if call('ZRANK', B .. clock_name, tno) == 0 then call('SPUBLISH', B .. 'time', clock_name) end
end

local function tell_ready(tno)
  call('SPUBLISH', B .. 'wake', call('HGET', of_topic(tno, 's'), 'name'))
end

-- When a finished job goes: the start of its hold.
local function kept_until(j) return as_number(j.hold) end

local function stand_ready(j)
  local own = has_target(j)
  local line = of_topic(j.tno, 'y' .. own)
  call('ZADD', line, 0, place(j))
  if own == 1 then
    line = of_topic(j.tno, 'y:' .. j.to)
    call('ZADD', line, 0, place(j))
    call('SADD', of_topic(j.tno, 'yd'), j.to)
  end
  call('SADD', B .. 'ready', j.tno)
  if call('ZCARD', line) == 1 then tell_ready(j.tno) end
end

local function leave_ready(j)
  local own = has_target(j)
  call('ZREM', of_topic(j.tno, 'y' .. own), place(j))
  if own == 1 then
    local there = of_topic(j.tno, 'y:' .. j.to)
    call('ZREM', there, place(j))
    if call('EXISTS', there) == 0 then call('SREM', of_topic(j.tno, 'yd'), j.to) end
  end
  if call('EXISTS', of_topic(j.tno, 'y0'), of_topic(j.tno, 'y1')) == 0 then
    call('SREM', B .. 'ready', j.tno)
  end
end

-- Puts a job into every order it belongs to; `o` alone is left to those who call.
local function stand(j)
  if j.st == READY then return stand_ready(j) end
  call('ZADD', of_topic(j.tno, STAGE[j.st]), score(j), j.n)
  if j.st <= RETRY then
    wake('wall', j.due, j.tno)
  elseif j.st == RESERVED then
    wake('tick', j.at, j.tno)
  elseif j.st == FINISHED then
    call('ZADD', of_topic(j.tno, 'u'), kept_until(j), j.n)
    wake('wall', kept_until(j), j.tno)
  elseif j.st == DEAD then
    if has_error(j) then call('HINCRBY', of_topic(j.tno, 'e'), j.error, 1) end
    local keeps = call('HGET', of_topic(j.tno, 's'), 'retain_dead')
    if keeps then wake('wall', j.at + keeps, j.tno) end
  end
end

local function leave(j)
  if j.st == READY then return leave_ready(j) end
  call('ZREM', of_topic(j.tno, STAGE[j.st]), j.n)
  if j.st == RESERVED then
    -- Another may have its place.
    if call('HEXISTS', of_topic(j.tno, 's'), 'concurrency') == 1
        and call('EXISTS', of_topic(j.tno, 'y0'), of_topic(j.tno, 'y1')) > 0 then
      tell_ready(j.tno)
    end
  elseif j.st == FINISHED then
    call('ZREM', of_topic(j.tno, 'u'), j.n)
  elseif j.st == DEAD and has_error(j) then
    local errors = of_topic(j.tno, 'e')
    if call('HINCRBY', errors, j.error, -1) <= 0 then call('HDEL', errors, j.error) end
  end
end

local function waits(j) return j.st <= HELD_RETRY end

-- Moves a job from what it was to what it is.
local function move(was, is)
  leave(was)
  if not waits(was) and (waits(is) or was.due ~= is.due) then
    call('ZREM', of_topic(was.tno, 'o'), was.n)
  end
  if not waits(is) and (waits(was) or was.due ~= is.due) then
    call('ZADD', of_topic(is.tno, 'o'), is.due, is.n)
  end
  stand(is)
  save(is)
end

local function entry(j) return pack('>I4', j.tno) .. j.n end

-- The number of a topic's job among all that have an id.
local function among(all, tno)
  for at = 1, #all, 12 do
    if struct.unpack('>I4', all, at) == tonumber(tno) then return string.sub(all, at + 4, at + 11) end
  end
end

local function remove(j)
  leave(j)
  if not waits(j) then call('ZREM', of_topic(j.tno, 'o'), j.n) end
  call('HDEL', B .. 'jobs', j.n)
  local all, this = call('HGET', B .. 'ids', j.id), entry(j)
  if all == this then
    call('HDEL', B .. 'ids', j.id)
  elseif all then
    for at = 1, #all, 12 do
      if string.sub(all, at, at + 11) == this then
        call('HSET', B .. 'ids', j.id, string.sub(all, 1, at - 1) .. string.sub(all, at + 12))
        break
      end
    end
  end
end

local function waited_for(name)
  for line in string.gmatch(ARGV[2], '[^\n]+') do
    if line == name then return true end
  end
  return false
end

-- A topic goes when no job, setting, pause or waiting call names it any more.
local function drop_if_nothing(tno)
  local s = of_topic(tno, 's')
  local jobs = call('EXISTS', of_topic(tno, 'd'), of_topic(tno, 'r'), of_topic(tno, 'h'), of_topic(tno, 'o'))
  if jobs > 0 then return end
  local name, settings, paused = unpack(call('HMGET', s, 'name', 'settings', 'paused'))
  if not name or settings or paused or waited_for(name) then return end
  call('DEL', s)
  call('HDEL', B .. 'names', name)
  call('ZREM', B .. 'topics', name)
  call('ZREM', B .. 'wall', tno)
  call('ZREM', B .. 'tick', tno)
end

local function number_of(name) return call('HGET', B .. 'names', name) end

-- The topic's number, made if it is not there.
local function made(name)
  local tno = number_of(name)
  if tno then return tno end
  tno = text(call('HINCRBY', B .. 'meta', 'topic', 1))
  call('HSET', B .. 'names', name, tno)
  call('ZADD', B .. 'topics', 0, name)
  call('HSET', of_topic(tno, 's'), 'name', name, 'added', 0)
  return tno
end

-- A job by its number (`n`), or by topic and id (`k`): two arguments after the kind, in any case.
local function find(at)
  if ARGV[at] == 'n' then return load(ARGV[at + 1]) end
  local tno = number_of(ARGV[at + 1])
  local all = tno and call('HGET', B .. 'ids', ARGV[at + 2])
  local number = all and among(all, tno)
  return number and load(number)
end

-- A job that is due is ready, since now.
local function make_ready(j)
  leave(j)
  j.st, j.at = READY, tick
  call('ZADD', of_topic(j.tno, 'o'), j.due, j.n)
  stand(j)
  save(j)
end

-- Makes jobs of a topic ready that are due, so many at most of a kind; whether there may be more.
local function promote(tno, most, dues)
  local more = false
  for _, kind in ipairs({ 'd', 'r' }) do
    local key = of_topic(tno, kind)
    local found = call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, most)
    for _, number in ipairs(found) do
      local j = load(number)
      -- An entry without a job is none.
      if j then
        dues[#dues + 1] = text(j.due)
        make_ready(j)
      else
        call('ZREM', key, number)
      end
    end
    more = more or #found == most
  end
  return more
end
