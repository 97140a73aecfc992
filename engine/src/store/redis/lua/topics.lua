-- Topics in the order of their names.
--
-- ARGV[3]  `one` and the topic; or `page`, from and to which name, at most so many; or `sum`
-- Answers  the clock, then of each topic: name, settings, when its pause ends (or `ever`) or empty, jobs
--          added, bytes of bodies if there is a limit of them or empty, how many are delayed, in retry, held, ready, urgent, reserved, dead, finished. Of
--          `sum`, how many topics there are, and these counts over all
register('topics', ALWAYS, function()
  local answers = { clock }
  local URGENT = '(' .. pack('>I4', 1024)

  local function card(tno, kind) return call('ZCARD', of_topic(tno, kind)) end

  local function counts(tno)
    local urgent = 0
    for _, kind in ipairs({ 'y0', 'y1' }) do
      urgent = urgent + call('ZLEXCOUNT', of_topic(tno, kind), '-', URGENT)
    end
    return card(tno, 'd'), card(tno, 'r'), card(tno, 'h'), card(tno, 'y0') + card(tno, 'y1'), urgent,
      card(tno, 'v'), card(tno, 'x'), card(tno, 'f')
  end

  local function shown(name)
    local tno = number_of(name)
    if not tno then return end
    local settings, paused, added, bytes =
      unpack(call('HMGET', of_topic(tno, 's'), 'settings', 'paused', 'added', 'bytes'))
    answers[#answers + 1] = { name, settings or '', paused or '', added or '0', bytes or '', counts(tno) }
  end

  if ARGV[3] == 'one' then
    shown(ARGV[4])
  elseif ARGV[3] == 'page' then
    local found = call('ZRANGEBYLEX', B .. 'topics', ARGV[4], ARGV[5], 'LIMIT', 0, ARGV[6])
    for _, name in ipairs(found) do shown(name) end
  else
    local names, sums = call('HVALS', B .. 'names'), { 0, 0, 0, 0, 0, 0, 0, 0 }
    for _, tno in ipairs(names) do
      for i, count in ipairs({ counts(tno) }) do sums[i] = sums[i] + count end
    end
    answers[2] = { #names, unpack(sums) }
  end
  return answers
end)
