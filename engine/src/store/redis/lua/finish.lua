-- Finishes jobs, each by itself, that are gone by it: the others are left to the long way.
--
-- ARGV[3]  how long finished jobs are kept where nobody says, in ms, or empty
-- ARGV[4…] of each job: `n` and its number and nothing, or `k`, topic and id; then the lease or nothing
-- Answers  the clock, then of each job: `d`one, its number, attempts (4 bytes)
--          and for how many µs it was reserved; `n`ot found; `l`ease lost;
--          `s`low
do
local function keeps(ms) return ms and ms ~= '' and ms ~= '0' end

-- Of the call under way: jobs that were looked at when they were read ahead.
local glanced

local function finish(at)
  local number, lease = number_at(at), ARGV[at + 3]
  local bytes = number and hget(JOBS, number)
  if not bytes then return 'n' end
  local j = glanced[number] or glance(number, bytes)
  if j.st ~= RESERVED then return 's' end
  if lease ~= '' and (lease_of(j) ~= lease or j.at <= tick) then return 'l' end
  local s = of_topic(j.tno, 's')
  if not known[s] then read_ahead(s, { 'retain', 'archive', 'bytes', 'concurrency' }) end
  local retain = hget(s, 'retain')
  if not is_plain(j) or keeps(retain) or hget(s, 'archive') then return 's' end
  if not retain and keeps(ARGV[3]) then return 's' end
  remove(j)
  drop_if_nothing(j.tno)
  return 'd' .. number .. pack('>I4I8', j.attempt, math.max(0, tick - read('>I8', j.hold, 17)))
end

register('finish', ALWAYS, function()
  local answers, numbers, ids = { clock }, {}, {}
  for at = 4, #ARGV, 4 do
    if ARGV[at] == 'n' then numbers[#numbers + 1] = ARGV[at + 1] else ids[#ids + 1] = ARGV[at + 2] end
  end
  read_ahead(JOBS, numbers)
  glanced = {}
  for _, number in ipairs(numbers) do
    local bytes = hget(JOBS, number)
    if bytes then
      glanced[number] = glance(number, bytes)
      ids[#ids + 1] = glanced[number].id
    end
  end
  read_ahead(IDS, ids)
  for at = 4, #ARGV, 4 do answers[#answers + 1] = finish(at) end
  return answers
end)
end
