-- Jobs of a bucket in no order, a page at a time: each that is there from the first page to the last is
-- answered, and maybe twice.
--
-- ARGV[3]  the cursor, 0 at first
-- Answers  the clock, the next cursor or 0, how many jobs the bucket has ever had, then of each job: number,
--          job
register('scan', ALWAYS, function()
  local page = call('HSCAN', JOBS, ARGV[3], 'COUNT', 100)
  local answers = { clock, page[1], text(tonumber(call('HGET', META, 'seq') or 0)) }
  for i = 1, #page[2] do answers[#answers + 1] = page[2][i] end
  return answers
end)
