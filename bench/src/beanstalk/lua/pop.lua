-- Takes the job that was due first. KEYS: due times by id; bodies by id. ARGV: now, the lease's end.
-- Answers its id and body, or nothing. A lease is a later due time, so that one that runs out is
-- due again by itself, and there is nothing to promote.
local id = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, 1)[1]
if not id then
    return false
end
redis.call('ZADD', KEYS[1], ARGV[2], id)
return { id, redis.call('HGET', KEYS[2], id) }
