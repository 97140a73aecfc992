-- Jobs whose leases ran out, for the machine to decide what becomes of them.
--
-- ARGV[3]  at most so many
-- Answers  the clock, then of each job: number, job, settings
register('expired', ALWAYS, function()
  local answers, most = { clock }, tonumber(ARGV[3])
  for _, tno in ipairs(call('ZRANGEBYSCORE', B .. 'tick', '-inf', tick)) do
    local settings = call('HGET', of_topic(tno, 's'), 'settings') or ''
    for _, number in ipairs(call('ZRANGEBYSCORE', of_topic(tno, 'v'), '-inf', tick, 'LIMIT', 0, most)) do
      local found = call('HGET', B .. 'jobs', number)
    -- An entry without a job is none.
    if found then
      answers[#answers + 1] = { number, found, settings }
    else
      call('ZREM', of_topic(tno, 'v'), number)
    end
    end
    if #answers > most then break end
  end
  return answers
end)
