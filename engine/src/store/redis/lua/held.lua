-- Jobs that are held by these leases: what a pop handed out whose answer was lost.
--
-- ARGV[3]  the leases, 16 bytes each          ARGV[4]  1 for any topic, else 0 and then the topics
-- Answers  as a pop
do
local AT_ONCE = 500

local function held_in(tno, mine, answers)
  local v, found, from = of_topic(tno, 'v'), nil, 0
  answers[5][#answers[5] + 1] = hget(of_topic(tno, 's'), 'settings') or ''
  repeat
    found = call('ZRANGE', v, from, from + AT_ONCE - 1)
    from = from + AT_ONCE
    read_ahead(JOBS, found)
    for _, number in ipairs(found) do
      local bytes = hget(JOBS, number)
      if bytes and mine[(lease_of(bytes))] then
        answers[#answers + 1] = number .. pack('>I8I2', tick, #answers[5] - 1)
        answers[#answers + 1] = bytes
      end
    end
  until #found < AT_ONCE
end

register('held', ALWAYS, function()
  local mine, answers, topics = {}, { clock, '-1', '0', {}, {}, 0 }, {}
  for at = 1, #ARGV[3], 16 do mine[sub(ARGV[3], at, at + 15)] = true end
  if ARGV[4] == '1' then
    for _, tno in ipairs(call('HVALS', B .. 'names')) do topics[#topics + 1] = tonumber(tno) end
  else
    for i = 5, #ARGV do topics[#topics + 1] = number_of(ARGV[i]) end
  end
  for _, tno in ipairs(topics) do held_in(tno, mine, answers) end
  return answers
end)
end
