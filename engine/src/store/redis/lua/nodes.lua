-- Who is there, and who sees to which bucket. It has a slot of its own.
--
-- ARGV[3]  `beat`, the node's id, how long its leases hold in ms, what it says of itself, when it
--          started in ms or nothing if that is now, which buckets it gives up, which it would like, and
--          loads of those it holds (`bucket:load`); or `leave` and an id; or `look`
-- Keys     `said` hash: id -> what it says; `started` hash: id -> when; `ends` zset: ids by when their
--          leases run out; `leases` hash: bucket -> holder and fencing number; `loads` hash: bucket ->
--          load; `fence` the last fencing number; `beat` when the last beat was;
--          `spared` set: ids whose leases were extended and who were not heard of since
-- Answers  the time; of each node: id, what it says, when it started and when its leases run out;
--          leases; loads
register('nodes', ALWAYS, function()
  local what, id = ARGV[3], ARGV[4]
  local changed = false

  local function holder_of(bucket)
    local lease = call('HGET', B .. 'leases', bucket)
    return lease and string.match(lease, '^%S+')
  end

  local function forget(gone)
    call('HDEL', B .. 'said', gone)
    call('HDEL', B .. 'started', gone)
    call('ZREM', B .. 'ends', gone)
    call('SREM', B .. 'spared', gone)
    for _, bucket in ipairs(call('HKEYS', B .. 'leases')) do
      if holder_of(bucket) == gone then call('HDEL', B .. 'leases', bucket) end
    end
    changed = true
  end

  -- When nobody was heard of for long it was Redis that could not be reached: that time does not count,
  -- but only once, or the dead would live for as long as the living are slow.
  local function allow_for_silence(lease)
    local silent = tick - (call('GET', B .. 'beat') or tick)
    call('SET', B .. 'beat', text(tick))
    if silent * 2 < lease * 1000 then return end
    for _, one in ipairs(call('ZRANGE', B .. 'ends', 0, -1)) do
      if call('SADD', B .. 'spared', one) == 1 then call('ZINCRBY', B .. 'ends', text(silent), one) end
    end
  end

  -- Whoever asks: a lease that ran out is gone for its holder too.
  local function forget_the_dead()
    for _, gone in ipairs(call('ZRANGEBYSCORE', B .. 'ends', '-inf', tick)) do forget(gone) end
  end

  local function give_up(buckets)
    for bucket in string.gmatch(buckets, '%d+') do
      if holder_of(bucket) == id then
        call('HDEL', B .. 'leases', bucket)
        changed = true
      end
    end
  end

  local function take(buckets)
    for bucket in string.gmatch(buckets, '%d+') do
      if not holder_of(bucket) then
        local fence = call('INCR', B .. 'fence')
        call('HSET', B .. 'leases', bucket, id .. ' ' .. text(fence))
      end
    end
  end

  local function note(loads)
    for bucket, load in string.gmatch(loads, '(%d+):(%d+)') do
      if holder_of(bucket) == id then call('HSET', B .. 'loads', bucket, load) end
    end
  end

  if what == 'leave' then
    forget(id)
  elseif what == 'beat' then
    local lease, said, started = ARGV[5], ARGV[6], ARGV[7]
    allow_for_silence(lease)
    forget_the_dead()
    if call('HEXISTS', B .. 'said', id) == 0 then changed = true end
    call('HSET', B .. 'said', id, said)
    call('HSET', B .. 'started', id, started ~= '' and started or text(now))
    call('ZADD', B .. 'ends', tick + lease * 1000, id)
    call('SREM', B .. 'spared', id)
    give_up(ARGV[8])
    take(ARGV[9])
    note(ARGV[10])
  end
  -- The others need not wait for their next beat. Whoever did it knows.
  if changed then call('SPUBLISH', B .. 'moved', id or '') end

  local nodes, ends = {}, call('ZRANGEBYSCORE', B .. 'ends', '(' .. text(tick), '+inf', 'WITHSCORES')
  for at = 1, #ends, 2 do
    local one = ends[at]
    nodes[#nodes + 1] = {
      one, call('HGET', B .. 'said', one), call('HGET', B .. 'started', one), text(tonumber(ends[at + 1])),
    }
  end
  return { clock, nodes, call('HGETALL', B .. 'leases'), call('HGETALL', B .. 'loads') }
end)
