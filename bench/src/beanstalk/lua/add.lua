-- Adds a job. KEYS: due times by id; bodies by id. ARGV: id, due time, body. Answers 1.
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
return redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
