-- Reads jobs, with the settings of their topics.
--
-- ARGV[3…] of each job: `n` and its number and nothing, or `k`, topic and id
-- Answers  the clock, then of each job: number, job, settings; or nothing
register('read', ALWAYS, function()
  local answers = { clock }
  for at = 3, #ARGV, 3 do
    local number = number_at(at)
    local bytes = number and hget(JOBS, number)
    local settings = bytes and hget(of_topic(read('>I4', bytes, 51), 's'), 'settings') or ''
    answers[#answers + 1] = bytes and { number, bytes, settings } or {}
  end
  return answers
end)
