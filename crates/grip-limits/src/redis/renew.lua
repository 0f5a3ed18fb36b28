-- Says which slots an instance still holds, and which starts Redis may not know of.
-- Own arguments: number of slots, the slots, then pairs of a start and its age (ms).
--
-- A slot that is not there is put there: whether its lease ran out or Redis lost it, its request
-- is under way. A start that is there stays as it is.

local count = tonumber(ARGV[OWN + 1])
for i = 1, count do
  local slot = ARGV[OWN + 1 + i]
  redis.call('ZADD', SLOTS, now + LEASE, slot)
  redis.call('ZADD', PROBES, 'XX', now + LEASE, slot)
end
for i = OWN + 2 + count, #ARGV, 2 do
  redis.call('ZADD', STARTS, 'NX', now - ARGV[i + 1], ARGV[i])
end
save()
return report(1, 0)
