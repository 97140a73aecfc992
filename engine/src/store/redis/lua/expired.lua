-- Jobs whose leases ran out, for the machine to decide what becomes of them.
--
-- ARGV[3]  at most so many
-- Answers  the clock, how many entries without a job were dropped, then of each job: number, job, settings
register('expired', ALWAYS, function()
  local answers, most = { clock, 0 }, tonumber(ARGV[3])
  for _, tno in ipairs(call('ZRANGEBYSCORE', B .. 'tick', '-inf', tick)) do
    local settings = call('HGET', of_topic(tno, 's'), 'settings') or ''
    each_until(of_topic(tno, 'v'), tick, most, function(number, bytes)
      answers[#answers + 1] = { number, bytes, settings }
    end)
    if #answers > most + 1 then break end
  end
  answers[2] = strays
  return answers
end)
