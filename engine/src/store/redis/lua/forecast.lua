-- Counts waiting jobs by when they are due.
--
-- ARGV[3]  the topic, or empty for all       ARGV[4…] the bounds of the spans, in ms
-- Answers  how many fall into each span
register('forecast', ALWAYS, function()
  local counts, topics = {}, {}
  if ARGV[3] ~= '' then
    topics[1] = number_of(ARGV[3]) or nil
  else
    topics = call('HVALS', B .. 'names')
  end
  for i = 4, #ARGV - 1 do
    local count = 0
    for _, tno in ipairs(topics) do
      for _, kind in ipairs({ 'd', 'r' }) do
        count = count + call('ZCOUNT', of_topic(tno, kind), ARGV[i], '(' .. ARGV[i + 1])
      end
    end
    counts[#counts + 1] = count
  end
  return counts
end)
