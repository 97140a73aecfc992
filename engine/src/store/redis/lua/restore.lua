-- Takes in jobs of another store as they were there, each by itself, unless its topic has one of its id.
--
-- ARGV[3]  the bucket's number     ARGV[4]  how many there are
-- ARGV[5…] of each job: topic, id, job, whose topic's number is none yet
-- Answers  of each job: 1, or 0 if there is one
do
local function restore(at)
  local topic, id, bytes = unpack(ARGV, at, at + 2)
  local tno, all = number_of(topic), hget(IDS, id)
  if tno and all and among(all, tno) then return 0 end
  tno = tno or made(topic)
  local j = parse(pack('>I8', hincr(META, 'seq', 1) * ARGV[4] + ARGV[3]), bytes)
  j.tno = tno
  if j.st <= RETRY and j.due <= now then j.st = READY end
  if j.st == READY then j.at = tick end
  if not waits(j) then zadd(of_topic(tno, 'o'), j.due, j.n) end
  stand(j)
  save(j)
  weigh(tno, nil, bytes)
  hset(IDS, id, (all or '') .. entry(j))
  hincr(of_topic(tno, 's'), 'added', 1)
  return 1
end

register('restore', {}, function()
  local answers, ids = {}, {}
  for at = 6, #ARGV, 3 do ids[#ids + 1] = ARGV[at] end
  read_ahead(IDS, ids)
  for at = 5, #ARGV, 3 do answers[#answers + 1] = restore(at) end
  return answers
end)
end
