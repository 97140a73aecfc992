-- Jobs by their id alone.
--
-- ARGV[3]  the id
-- Answers  the clock, then of each job: number, job
register('find', ALWAYS, function()
  local answers, all = { clock }, call('HGET', IDS, ARGV[3]) or ''
  for at = 1, #all, 12 do
    local number = sub(all, at + 4, at + 11)
    answers[#answers + 1] = { number, hget(JOBS, number) or nil }
  end
  return answers
end)
