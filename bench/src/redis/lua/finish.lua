-- Ends a job that is leased. KEYS: as in add.lua. ARGV: id. Answers 1, or 0 if it is not leased.
if redis.call('ZREM', KEYS[4], ARGV[1]) == 0 then
    return 0
end
redis.call('HDEL', KEYS[5], ARGV[1])
return redis.call('HDEL', KEYS[1], ARGV[1])
