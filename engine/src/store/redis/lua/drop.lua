-- Lets topics go that nobody waits for any more, if nothing else names them.
--
-- ARGV[3…] the topics
register('drop', ALWAYS, function()
  for i = 3, #ARGV do
    local tno = number_of(ARGV[i])
    if tno then drop_if_nothing(tno) end
  end
end)
