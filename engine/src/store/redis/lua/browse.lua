-- Jobs of a topic in the order of a stage, or of all of them by due time.
--
-- ARGV[3]  the topic                       ARGV[4]  the stage's letter: d r h y v x f, or a for all
-- ARGV[5]  at most so many                 ARGV[6]  not before this score (of ready ones: nothing)
-- ARGV[7]  after this: a score and a number, of ready ones a place; or empty
-- ARGV[8]  the score or nothing
-- Answers  the clock, the topic's settings, 1 if there may be more, then of each entry: its score (of
--          ready ones its place), number, job or nothing: an entry without a job is none, and yet may have
--          others behind it
register('browse', ALWAYS, function()
  local answers, tno, most = { clock, '', 0 }, number_of(ARGV[3]), tonumber(ARGV[5])
  if not tno then return answers end
  answers[2] = call('HGET', of_topic(tno, 's'), 'settings') or ''

  local function shown(at, number)
    answers[#answers + 1] = { at, number, call('HGET', JOBS, number) or '' }
  end

  -- The rank of the first entry after a score and a number: those of one score stand by number.
  local function rank_after(key, at, number)
    local low = call('ZCOUNT', key, '-inf', '(' .. at)
    local high = low + call('ZCOUNT', key, at, at)
    while low < high do
      local middle = math.floor((low + high) / 2)
      if as_number(call('ZRANGE', key, middle, middle)[1]) > as_number(number) then high = middle else low = middle + 1 end
    end
    return low
  end

  local function some_of(key)
    local rank = call('ZCOUNT', key, '-inf', '(' .. ARGV[6])
    if ARGV[7] ~= '' then rank = math.max(rank, rank_after(key, ARGV[8], ARGV[7])) end
    local found, all = call('ZRANGE', key, rank, rank + most - 1, 'WITHSCORES'), {}
    for i = 1, #found, 2 do all[#all + 1] = { tonumber(found[i + 1]), found[i] } end
    return all
  end

  local function by_score(a, b)
    if a[1] ~= b[1] then return a[1] < b[1] end
    return as_number(a[2]) < as_number(b[2])
  end

  local found = {}
  if ARGV[4] == 'y' then
    local from = ARGV[7] == '' and '-' or '(' .. ARGV[7]
    for _, kind in ipairs({ 'y0', 'y1' }) do
      for _, at in ipairs(call('ZRANGEBYLEX', of_topic(tno, kind), from, '+', 'LIMIT', 0, most)) do
        found[#found + 1] = at
      end
    end
    table.sort(found, before)
    for i = 1, math.min(#found, most) do shown(found[i], sub(found[i], 13)) end
  else
    local kinds = ARGV[4] == 'a' and { 'd', 'r', 'h', 'o' } or { ARGV[4] }
    for _, kind in ipairs(kinds) do
      for _, one in ipairs(some_of(of_topic(tno, kind))) do found[#found + 1] = one end
    end
    table.sort(found, by_score)
    for i = 1, math.min(#found, most) do shown(text(found[i][1]), found[i][2]) end
  end
  if #found >= most then answers[3] = 1 end
  return answers
end)
