-- Moves jobs as the machine has decided, each if it is still at the version that was looked at.
--
-- ARGV[3…] of each job: `k`eep, `b` (keep, and give a token of the rate back) or `g`one, number,
--          version, job
-- Answers  of each job: 1; 0 if it has changed meanwhile; 2 if its topic has no room for its new body
do
local function give_token_back(tno)
  local s = of_topic(tno, 's')
  local found = call('HMGET', s, 'gap_us', 'gap_ns', 'full_us', 'full_ns')
  if not found[1] or not found[3] then return end
  local us, ns = found[3] - found[1], found[4] - found[2]
  if ns < 0 then us, ns = us - 1, ns + 1000 end
  if us < 0 then us, ns = 0, 0 end
  call('HSET', s, 'full_us', text(us), 'full_ns', text(ns))
end

-- Whether a body has grown so much that its topic has no room for it.
local function is_too_heavy(tno, was, is)
  local s = of_topic(tno, 's')
  local most = hget(s, 'bytes_max')
  if not most then return false end
  local grows = grown(was, is)
  return grows > 0 and (hget(s, 'bytes') or 0) + grows > tonumber(most)
end

local function commit(at)
  local how, number, version, new = unpack(ARGV, at, at + 3)
  local was = load(number)
  if not was or text(was.version) ~= version then return 0 end
  if how == 'g' then
    remove(was)
    drop_if_nothing(was.tno)
  else
    local old = hget(JOBS, number)
    if is_too_heavy(was.tno, old, new) then return 2 end
    weigh(was.tno, old, new)
    move(was, parse(number, new))
    if how == 'b' then give_token_back(was.tno) end
  end
  return 1
end

register('commit', ALWAYS, function()
  local answers = {}
  for at = 3, #ARGV, 4 do answers[#answers + 1] = commit(at) end
  return answers
end)
end
