-- Ends a job. KEYS: due times by id; bodies by id. ARGV: id. Answers 1, or 0 if it is not there.
redis.call('HDEL', KEYS[2], ARGV[1])
return redis.call('ZREM', KEYS[1], ARGV[1])
