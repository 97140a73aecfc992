-- The errors of a topic's dead jobs.
--
-- ARGV[3]  the topic
-- Answers  errors and how many have each, in turn
register('errors', ALWAYS, function()
  local tno = number_of(ARGV[3])
  return tno and call('HGETALL', of_topic(tno, 'e')) or {}
end)
