-- Adds a job. KEYS: bodies by id; due times by id; ids that are ready; ends of leases by id; attempts
-- by id. ARGV: id, delay in milliseconds, body. Answers its due time, or 0 if the id is there already.
local time = redis.call('TIME')
local due = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[2]
if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[3]) == 0 then
    return 0
end
if ARGV[2] == '0' then
    redis.call('RPUSH', KEYS[3], ARGV[1])
else
    redis.call('ZADD', KEYS[2], due, ARGV[1])
end
return due
