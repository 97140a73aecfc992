-- Does what the clock has brought: jobs that are due, pauses that are over, jobs that are no longer
-- kept. Leases that ran out come before, see expired.lua.
--
-- ARGV[3]  at most so many jobs of a kind and topic
-- Answers  the clock, 1 if there is more to do, when the wall clock and when the other brings the
--          next, or -1, when each job that is ready now was due, and how many entries without a job were
--          dropped
register('tick', ALWAYS, function()
  local most, more = tonumber(ARGV[3]), '0'
  local answers = { clock, '0', '-1', '-1', {}, 0 }

  local function first(tno, what)
    local found = call('ZRANGE', of_topic(tno, what), 0, 0, 'WITHSCORES')
    return found[2] and tonumber(found[2])
  end

  local function soonest(...)
    local best = nil
    for i = 1, select('#', ...) do
      local at = select(i, ...)
      if at and (not best or at < best) then best = at end
    end
    return best
  end

  local function set_wake(clock_name, tno, at)
    if at then call('ZADD', B .. clock_name, at, tno) else call('ZREM', B .. clock_name, tno) end
  end

  local function look_at(tno)
    local s = of_topic(tno, 's')
    local keeps, paused = unpack(call('HMGET', s, 'retain_dead', 'paused'))
    paused = paused and paused ~= 'ever' and tonumber(paused)
    if promote(tno, most, answers[5]) then more = '1' end
    if paused and paused <= tick then
      call('HDEL', s, 'paused')
      paused = nil
      tell_ready(tno)
    end
    if each_until(of_topic(tno, 'u'), now, most, remove_each) then more = '1' end
    if keeps and each_until(of_topic(tno, 'x'), now - keeps, most, remove_each) then more = '1' end
    write()
    local dead = keeps and first(tno, 'x')
    set_wake('wall', tno, soonest(first(tno, 'd'), first(tno, 'r'), first(tno, 'u'), dead and dead + keeps))
    set_wake('tick', tno, soonest(first(tno, 'v'), paused))
    drop_if_nothing(tno)
  end

  local seen = {}
  for _, due in ipairs({ call('ZRANGEBYSCORE', B .. 'wall', '-inf', now, 'LIMIT', 0, 100),
                         call('ZRANGEBYSCORE', B .. 'tick', '-inf', tick, 'LIMIT', 0, 100) }) do
    if #due == 100 then more = '1' end
    for _, tno in ipairs(due) do
      tno = tonumber(tno)
      if not seen[tno] then look_at(tno) end
      seen[tno] = true
    end
  end

  local function next_of(clock_name)
    local found = call('ZRANGE', B .. clock_name, 0, 0, 'WITHSCORES')
    return found[2] and text(tonumber(found[2])) or '-1'
  end
  answers[2], answers[3], answers[4], answers[6] = more, next_of('wall'), next_of('tick'), strays
  return answers
end)
