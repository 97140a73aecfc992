-- Reads jobs, with the settings of their topics.
--
-- ARGV[3…] of each job: `n` and its number and nothing, or `k`, topic and id
-- Answers  the clock, then of each job: number, job, settings; or nothing
register('read', ALWAYS, function()
  local answers = { clock }
  for at = 3, #ARGV, 3 do
    local j = find(at)
    answers[#answers + 1] = j and { j.n, stored(j), call('HGET', of_topic(j.tno, 's'), 'settings') or '' } or {}
  end
  return answers
end)
