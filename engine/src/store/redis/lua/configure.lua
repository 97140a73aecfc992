-- Sets, spreads, pauses, resumes, empties or forgets a topic, or what of it lies in this bucket.
--
-- ARGV[3]  the topic       ARGV[4]  `set`, `spread`, `pause`, `resume`, `empty` or `forget`
-- set, spread (if it has no jobs):  ARGV[5] the settings, or empty if they say nothing; then pairs of what scripts need of them
-- pause:   ARGV[5] for how long in ms, or empty for ever
-- empty, forget:  ARGV[5] at most so many jobs: to be called until it answers 0
-- Answers  -1 if there is no such topic, or it has jobs and is not spread, else how many jobs are gone by it
register('configure', ALWAYS, function()
  local name, what = ARGV[3], ARGV[4]
  local tno = number_of(name)
  if not tno and what ~= 'set' and what ~= 'spread' and what ~= 'pause' then
    if waited_for(name) then return 0 end
    return -1
  end
  tno = tno or made(name)
  write()
  local s = of_topic(tno, 's')
  local DERIVED = { 'settings', 'to', 'ttr', 'timeout', 'gap_us', 'gap_ns', 'room_us', 'room_ns', 'concurrency',
    'retain', 'retain_dead', 'archive', 'partitions', 'jobs_max', 'bytes_max' }

  local function refit(us, ns)
    local full = call('HMGET', s, 'full_us', 'full_ns')
    if not full[1] then return end
    local most_us, most_ns = tick + us, tonumber(ns)
    local at_us, at_ns = tonumber(full[1]), tonumber(full[2])
    if at_us > most_us or (at_us == most_us and at_ns > most_ns) then
      call('HSET', s, 'full_us', text(most_us), 'full_ns', text(most_ns))
    end
  end

  local gone = 0
  local function clear()
    for _, kind in ipairs({ 'd', 'r', 'h', 'o' }) do
      each_until(of_topic(tno, kind), '+inf', ARGV[5] - gone, function(number, bytes)
        remove_each(number, bytes)
        gone = gone + 1
      end)
      if gone >= tonumber(ARGV[5]) then return end
    end
  end

  if what == 'spread' and has_jobs(tno) then return -1 end
  if what == 'set' or what == 'spread' then
    local bytes = false
    for i = 6, #ARGV, 2 do
      -- Before anything is written: as long as nothing is, a call that takes too long can be ended.
      if ARGV[i] == 'bytes_max' then bytes = call('HGET', s, 'bytes') or text(bytes_of(tno)) end
    end
    call('HDEL', s, 'bytes', unpack(DERIVED))
    for i = 6, #ARGV, 2 do call('HSET', s, ARGV[i], ARGV[i + 1]) end
    if bytes then call('HSET', s, 'bytes', bytes) end
    if ARGV[5] ~= '' then call('HSET', s, 'settings', ARGV[5]) end
    local us, ns, keeps = unpack(call('HMGET', s, 'room_us', 'room_ns', 'retain_dead'))
    if us then refit(us, ns) end
    local dead = keeps and call('ZRANGE', of_topic(tno, 'x'), 0, 0, 'WITHSCORES')[2]
    if dead then wake('wall', dead + keeps, tno) end
    tell_ready(tno)
  elseif what == 'pause' then
    if ARGV[5] == '' then
      call('HSET', s, 'paused', 'ever')
    else
      local till = math.min(tick + ARGV[5] * 1000, LAST)
      call('HSET', s, 'paused', text(till))
      wake('tick', till, tno)
    end
  elseif what == 'resume' then
    call('HDEL', s, 'paused')
    tell_ready(tno)
  else
    clear()
    if gone == 0 and what == 'forget' then call('HDEL', s, 'paused', 'bytes', unpack(DERIVED)) end
  end
  drop_if_nothing(tno)
  return gone
end)
