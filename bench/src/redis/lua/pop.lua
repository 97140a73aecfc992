-- Makes ready up to 100 jobs that are due, and leases the first. KEYS: as in add.lua. ARGV: for how
-- long, in milliseconds. Answers its id, body and attempt, or nothing.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local due = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 100)
if #due > 0 then
    redis.call('ZREM', KEYS[2], unpack(due))
    redis.call('RPUSH', KEYS[3], unpack(due))
end
local id = redis.call('LPOP', KEYS[3])
if not id then
    return false
end
redis.call('ZADD', KEYS[4], now + ARGV[1], id)
return { id, redis.call('HGET', KEYS[1], id), redis.call('HINCRBY', KEYS[5], id, 1) }
