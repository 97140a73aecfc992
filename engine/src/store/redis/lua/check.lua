-- Looks over a part of a bucket: whether every entry has its job, and every job its entries. Puts right
-- what is not, if it is told to; never removes a job. What it looks at in one call it sees at one moment,
-- so that a store in use is never taken for a broken one.
--
-- ARGV[3]  1 to put things right                ARGV[4]  what to look at:
--   `jobs`, cursor, the bucket's number, how many there are
--   `ids`, cursor
--   `topics`, cursor
--   `order`, topic's number, order, cursor        an order is `d`, `y0`, `y:DEST` and so on
--   `orders`, topic's number                      which orders it has
--   `rest`, topic's number                        what is known of a topic beside its jobs
--   `set`, `ready`, `topics`, `wall` or `tick`, cursor    sets of topics
--   `adopt`, number of a job, its topic's name    gives a job a topic that it lacks
-- Answers  the next cursor or 0, how many were looked at, what was found (of jobs: those without a topic;
--          of topics: their numbers; of orders: these), and of each fault: its kind, where, and 1 if it was
--          put right
do
-- So many entries a call, about.
local PAGE = 200
-- No more dead jobs than these are counted by error at once.
local DEAD_MOST = 2000
-- The bodies of no more jobs than these are weighed at once.
local BYTES_MOST = 10000
-- Of the call under way.
local repairs, faults, found

-- Notes a fault, and puts it right by `mend` if that is wanted and can be.
local function fault(kind, where, mend)
  local mended = repairs and mend ~= nil
  if mended then mend() end
  faults[#faults + 1] = { kind, where, mended and 1 or 0 }
end

local function show(number) return text(as_number(number)) end
local function name_of(tno) return call('HGET', of_topic(tno, 's'), 'name') end

local function job_at(number)
  if #number ~= 8 then return nil end
  local found = call('HGET', JOBS, number)
  if not found then return nil end
  local fine, j = pcall(parse, number, found)
  return fine and STAGE[j.st] and j or nil
end

-- Whether a topic is one that its name leads to.
local function is_topic(tno)
  local name = name_of(tno)
  return name and number_of(name) == tonumber(tno)
end

-- Has a job stand in an order with this score.
local function must_stand(j, where, order, at, member)
  local key = of_topic(j.tno, order)
  local there = call('ZSCORE', key, member)
  if not there then
    fault('job_out_of_order', where .. ' lacks its entry in ' .. order, function() call('ZADD', key, at, member) end)
  elseif tonumber(there) ~= at then
    fault('entry_misplaced', where .. ' stands at ' .. there .. ' in ' .. order .. ', not at ' .. text(at),
      function() call('ZADD', key, at, member) end)
  end
end

local function must_be_looked_at(j, where, clock_name, at)
  local there = call('ZSCORE', B .. clock_name, j.tno)
  if not there or tonumber(there) > at then
    fault('clock_asleep', where .. ' is not waited for at ' .. text(at), function()
      wake(clock_name, at, j.tno)
      write()
    end)
  end
end

local function check_ready(j, where)
  local own = has_target(j)
  must_stand(j, where, 'y' .. own, 0, place(j))
  if own == 1 then
    must_stand(j, where, 'y:' .. j.to, 0, place(j))
    if call('SISMEMBER', of_topic(j.tno, 'yd'), j.to) == 0 then
      fault('destination_unlisted', where .. ' goes to ' .. j.to,
        function() call('SADD', of_topic(j.tno, 'yd'), j.to) end)
    end
  end
  if call('SISMEMBER', B .. 'ready', j.tno) == 0 then
    fault('topic_not_ready', where .. ' is ready, its topic is not listed so', function()
      call('SADD', B .. 'ready', j.tno)
      tell_ready(j.tno)
    end)
  end
end

local function check_clock(j, where)
  if j.st <= RETRY then
    must_be_looked_at(j, where, 'wall', j.due)
  elseif j.st == RESERVED then
    must_be_looked_at(j, where, 'tick', j.at)
  elseif j.st == FINISHED then
    must_be_looked_at(j, where, 'wall', kept_until(j))
  elseif j.st == DEAD then
    local keeps = call('HGET', of_topic(j.tno, 's'), 'retain_dead')
    if keeps then must_be_looked_at(j, where, 'wall', j.at + keeps) end
  end
end

-- Whether another job of the topic stands under an id.
local function other_under(all, j)
  local number = all and among(all, j.tno)
  local other = number and number ~= j.n and job_at(number)
  return other and other.id == j.id and other.tno == j.tno
end

local function without(all, tno)
  local left = ''
  for at = 1, #all, 12 do
    if read('>I4', all, at) ~= tno then left = left .. sub(all, at, at + 11) end
  end
  return left
end

local function check_id(j, where)
  local all = call('HGET', IDS, j.id)
  if all and #all % 12 == 0 and among(all, j.tno) == j.n then return end
  if other_under(all, j) then return fault('job_twice', where .. ' has the id of another job') end
  fault('job_without_id', where .. ' is not found by its id', function()
    call('HSET', IDS, j.id, without(all or '', j.tno) .. entry(j))
  end)
end

local function check_job(number, bytes, bucket, count)
  if #number ~= 8 then return fault('job_unreadable', 'a job whose number is none') end
  local where = 'job ' .. show(number)
  local fine, j = pcall(parse, number, bytes)
  if not fine or not STAGE[j.st] then return fault('job_unreadable', where) end
  where = where .. ' (`' .. j.id .. '`)'
  if not is_topic(j.tno) then
    found[#found + 1] = number
    return
  end
  if j.st == READY then
    check_ready(j, where)
  else
    must_stand(j, where, STAGE[j.st], score(j), j.n)
  end
  if j.st == FINISHED then must_stand(j, where, 'u', kept_until(j), j.n) end
  if not waits(j) then must_stand(j, where, 'o', j.due, j.n) end
  check_clock(j, where)
  check_id(j, where)
  local seq = math.floor((as_number(number) - bucket) / count)
  if tonumber(call('HGET', META, 'seq') or 0) < seq then
    fault('counter_behind', where .. ' has a number that is yet to be given',
      function() call('HSET', META, 'seq', text(seq)) end)
  end
end

local function check_jobs(cursor, bucket, count)
  local page = call('HSCAN', JOBS, cursor, 'COUNT', PAGE)
  for i = 1, #page[2], 2 do check_job(page[2][i], page[2][i + 1], bucket, count) end
  return page[1], #page[2] / 2
end

-- The entries under an id that lead to a job which has it.
local function right_ones(id, all)
  local right = ''
  for at = 1, #all, 12 do
    local one = sub(all, at, at + 11)
    local j = #one == 12 and job_at(sub(one, 5))
    if j and j.id == id and entry(j) == one then right = right .. one end
  end
  return right
end

local function check_ids(cursor)
  local page = call('HSCAN', IDS, cursor, 'COUNT', PAGE)
  for i = 1, #page[2], 2 do
    local id, all = page[2][i], page[2][i + 1]
    local right = right_ones(id, all)
    if right ~= all then
      fault('id_without_job', 'id `' .. id .. '`', function()
        if right == '' then call('HDEL', IDS, id) else call('HSET', IDS, id, right) end
      end)
    end
  end
  return page[1], #page[2] / 2
end

local function check_topics(cursor)
  local page = call('HSCAN', B .. 'names', cursor, 'COUNT', PAGE)
  for i = 1, #page[2], 2 do
    local name, tno = page[2][i], page[2][i + 1]
    local known = name_of(tno)
    if known ~= name then
      fault('topic_misnamed', 'topic `' .. name .. '`', function()
        -- What was known of it went with its name.
        if not known then call('HSET', of_topic(tno, 's'), 'name', name, 'added', 0)
        else call('HDEL', B .. 'names', name) end
      end)
    end
    if not call('ZSCORE', B .. 'topics', name) then
      fault('topic_unlisted', 'topic `' .. name .. '`', function() call('ZADD', B .. 'topics', 0, name) end)
    end
    if tonumber(call('HGET', META, 'topic') or 0) < tonumber(tno) then
      fault('counter_behind', 'topic `' .. name .. '` has a number that is yet to be given',
        function() call('HSET', META, 'topic', tno) end)
    end
    found[#found + 1] = tno
  end
  return page[1], #page[2] / 2
end

-- Whether a job belongs into an order of its topic.
local function belongs(j, tno, order, member)
  if j.tno ~= tonumber(tno) then return false end
  if sub(order, 1, 1) == 'y' then
    if j.st ~= READY or place(j) ~= member then return false end
    return order == 'y' .. has_target(j) or (has_target(j) == 1 and order == 'y:' .. j.to)
  end
  if order == 'o' then return not waits(j) end
  if order == 'u' then return j.st == FINISHED end
  return STAGE[j.st] == order
end

local function check_order(tno, order, cursor)
  local key, name = of_topic(tno, order), name_of(tno) or ''
  local page = call('ZSCAN', key, cursor, 'COUNT', PAGE)
  for i = 1, #page[2], 2 do
    local member = page[2][i]
    local number = sub(order, 1, 1) == 'y' and sub(member, 13) or member
    local function drop() call('ZREM', key, member) end
    local j = job_at(number)
    local where = 'topic `' .. name .. '`, order ' .. order
    if not j then
      -- One that cannot be read is told of among the jobs, and kept where it is.
      if call('HEXISTS', JOBS, number) == 0 then
        local gone = #number == 8 and show(number) or 'without a number'
        fault('entry_without_job', where .. ', job ' .. gone, drop)
      end
    elseif not belongs(j, tno, order, member) then
      fault('entry_misplaced', where .. ', job ' .. show(number), drop)
    end
  end
  return page[1], #page[2] / 2
end

local ORDERS = { 'd', 'r', 'h', 'v', 'x', 'f', 'o', 'u', 'y0', 'y1' }

-- How many dead jobs have each error; nothing if there are too many to count at once.
local function errors_of(tno)
  if call('ZCARD', of_topic(tno, 'x')) > DEAD_MOST then return nil end
  local counts = {}
  for _, number in ipairs(call('ZRANGE', of_topic(tno, 'x'), 0, -1)) do
    local j = job_at(number)
    if j and j.st == DEAD and has_error(j) then counts[j.error] = (counts[j.error] or 0) + 1 end
  end
  return counts
end

local function check_errors(tno, where)
  local right, key = errors_of(tno), of_topic(tno, 'e')
  if not right then return end
  local there = call('HGETALL', key)
  for i = 1, #there, 2 do
    local error, count = there[i], right[there[i]] or 0
    right[error] = nil
    if tonumber(there[i + 1]) ~= count then
      fault('errors_miscounted', where .. ', `' .. error .. '`', function()
        if count > 0 then call('HSET', key, error, count) else call('HDEL', key, error) end
      end)
    end
  end
  for error, count in pairs(right) do
    fault('errors_miscounted', where .. ', `' .. error .. '`', function() call('HSET', key, error, count) end)
  end
end

local function check_bytes(tno, where)
  local s = of_topic(tno, 's')
  local most, there = unpack(call('HMGET', s, 'bytes_max', 'bytes'))
  if not most or jobs_of(tno) > BYTES_MOST then return end
  local right = bytes_of(tno)
  if right == tonumber(there or -1) then return end
  fault('bytes_miscounted', where .. ' has ' .. text(right) .. ' bytes of bodies, not ' .. (there or 'none'),
    function() call('HSET', s, 'bytes', text(right)) end)
end

local function orders_of(tno)
  for _, order in ipairs(ORDERS) do found[#found + 1] = order end
  for _, to in ipairs(call('SMEMBERS', of_topic(tno, 'yd'))) do found[#found + 1] = 'y:' .. to end
  return '0', 0
end

local function check_rest(tno)
  local where = 'topic `' .. (name_of(tno) or '') .. '`'
  for _, to in ipairs(call('SMEMBERS', of_topic(tno, 'yd'))) do
    if call('EXISTS', of_topic(tno, 'y:' .. to)) == 0 then
      fault('destination_empty', where .. ', ' .. to, function() call('SREM', of_topic(tno, 'yd'), to) end)
    end
  end
  check_errors(tno, where)
  check_bytes(tno, where)
  local jobs = jobs_of(tno)
  if tonumber(call('HGET', of_topic(tno, 's'), 'added') or 0) < jobs then
    fault('counter_behind', where .. ' has more jobs than were ever added',
      function() call('HSET', of_topic(tno, 's'), 'added', jobs) end)
  end
  if repairs then drop_if_nothing(tno) end
  return '0', 1
end

local function check_ready_topic(tno)
  if call('EXISTS', of_topic(tno, 'y0'), of_topic(tno, 'y1')) > 0 then return end
  fault('topic_not_ready', 'topic number ' .. tno .. ' is listed as ready', function() call('SREM', B .. 'ready', tno) end)
end

local function check_listed(name)
  if number_of(name) then return end
  fault('topic_unlisted', 'topic `' .. name .. '` is not there', function() call('ZREM', B .. 'topics', name) end)
end

local function check_set(which, cursor)
  local scan = which == 'ready' and 'SSCAN' or 'ZSCAN'
  local page = call(scan, B .. which, cursor, 'COUNT', PAGE)
  for i = 1, #page[2], which == 'ready' and 1 or 2 do
    local member = page[2][i]
    if which == 'ready' then
      check_ready_topic(member)
    elseif which == 'topics' then
      check_listed(member)
    elseif not name_of(member) then
      fault('clock_astray', 'topic number ' .. member .. ' is not there', function() call('ZREM', B .. which, member) end)
    end
  end
  return page[1], 0
end

-- A job whose topic lost its name: under the number it has, or with the topic that has the name now.
local function adopt(number, name)
  local j = job_at(number)
  if not j or is_topic(j.tno) then return '0', 0 end
  local where = 'job ' .. show(number) .. ' (`' .. j.id .. '`) of topic `' .. name .. '`'
  local tno = number_of(name)
  fault('job_without_topic', where, function()
    if tno and tno ~= j.tno then
      for _, order in ipairs(ORDERS) do call('ZREM', of_topic(j.tno, order), j.n, place(j)) end
      call('ZREM', of_topic(j.tno, 'y:' .. j.to), place(j))
      j.tno = tno
      save(j)
    else
      call('HSET', B .. 'names', name, text(j.tno))
      call('ZADD', B .. 'topics', 0, name)
      call('HSET', of_topic(j.tno, 's'), 'name', name)
    end
  end)
  return '0', 0
end

register('check', ALWAYS, function()
  repairs, faults, found = ARGV[3] == '1', {}, {}
  local what, cursor, looked = ARGV[4], nil, nil
  if what == 'jobs' then
    cursor, looked = check_jobs(ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7]))
  elseif what == 'ids' then
    cursor, looked = check_ids(ARGV[5])
  elseif what == 'topics' then
    cursor, looked = check_topics(ARGV[5])
  elseif what == 'orders' then
    cursor, looked = orders_of(ARGV[5])
  elseif what == 'order' then
    cursor, looked = check_order(ARGV[5], ARGV[6], ARGV[7])
  elseif what == 'rest' then
    cursor, looked = check_rest(ARGV[5])
  elseif what == 'set' then
    cursor, looked = check_set(ARGV[5], ARGV[6])
  else
    cursor, looked = adopt(ARGV[5], ARGV[6])
  end
  return { cursor, looked, found, faults }
end)
end
