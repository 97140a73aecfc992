-- The key-value side, which has a slot of its own.
--
-- ARGV[3]  `write`, key, what is expected (`any`, `absent` or a version), ttl in ms or empty, and the
--          value if it is not to be removed; or `one` and a key; or `page`, from and to
--          which key, at most so many; or `next`
-- Keys     `kv` hash: key -> version and end (8 bytes each) and value; `keys` zset: the keys in their
--          order; `ends` zset: keys by when they end; `version` the last
-- Answers  of a write, 1 and its version, or 0 and the version that is there or -1; of `next`, when the
--          next key ends or -1; else of each key: key, version, value
register('kv', {}, function()
  local function forget(key)
    call('HDEL', B .. 'kv', key)
    call('ZREM', B .. 'keys', key)
    call('ZREM', B .. 'ends', key)
  end

  for _, key in ipairs(call('ZRANGEBYSCORE', B .. 'ends', '-inf', tick)) do forget(key) end

  local function version_of(key)
    local found = call('HGET', B .. 'kv', key)
    return found and (read('>I8', found))
  end

  local function write(key, expect, ttl, value)
    local there = version_of(key)
    local right = expect == 'any' or (expect == 'absent' and not there)
      or (there and text(there) == expect)
    if not right or (not there and not value) then return { 0, there and text(there) or '-1' } end
    forget(key)
    local version = call('INCR', B .. 'version')
    if value then
      local till = ttl ~= '' and math.min(tick + ttl * 1000, LAST) or 0
      call('HSET', B .. 'kv', key, pack('>I8I8', version, till) .. value)
      call('ZADD', B .. 'keys', 0, key)
      if till > 0 then call('ZADD', B .. 'ends', till, key) end
    end
    return { 1, text(version) }
  end

  local answers = {}
  local function shown(key)
    local found = call('HGET', B .. 'kv', key)
    if not found then return end
    answers[#answers + 1] = { key, text((read('>I8', found))), sub(found, 17) }
  end

  local what = ARGV[3]
  if what == 'write' then return write(ARGV[4], ARGV[5], ARGV[6], ARGV[7]) end
  if what == 'next' then
    local found = call('ZRANGE', B .. 'ends', 0, 0, 'WITHSCORES')
    return found[2] and text(tonumber(found[2])) or '-1'
  end
  if what == 'one' then
    shown(ARGV[4])
  else
    local found = call('ZRANGEBYLEX', B .. 'keys', ARGV[4], ARGV[5], 'LIMIT', 0, ARGV[6])
    for _, key in ipairs(found) do shown(key) end
  end
  return answers
end)
