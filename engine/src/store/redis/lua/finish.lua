-- Finishes jobs, each by itself, that are gone by it: the others are left to the long way.
--
-- ARGV[3]  how long finished jobs are kept where nobody says, in ms, or empty
-- ARGV[4…] of each job: `n` and its number and nothing, or `k`, topic and id; then the lease or nothing
-- Answers  the clock, then of each job: `d`one and its attempts; `n`ot found; `l`ease lost; `s`low
do
local function keeps(ms) return ms and ms ~= '' and ms ~= '0' end

local function finish(at)
  local j, lease = find(at), ARGV[at + 3]
  if not j then return { 'n' } end
  if j.st ~= RESERVED then return { 's' } end
  if lease ~= '' and (string.sub(j.hold, 1, 16) ~= lease or j.at <= tick) then return { 'l' } end
  local retain, archive = unpack(call('HMGET', of_topic(j.tno, 's'), 'retain', 'archive'))
  if not is_plain(j) or archive or keeps(retain) then return { 's' } end
  if not retain and keeps(ARGV[3]) then return { 's' } end
  remove(j)
  drop_if_nothing(j.tno)
  return { 'd', j.attempt }
end

register('finish', ALWAYS, function()
  local answers = { clock }
  for at = 4, #ARGV, 4 do answers[#answers + 1] = finish(at) end
  return answers
end)
end
