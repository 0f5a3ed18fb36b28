-- Takes a slot and a start in one step, or says why not.
-- Own arguments: slot, start, 1 if the slot is held already, the probe's round or 0.

local slot, start = ARGV[OWN + 1], ARGV[OWN + 2]
local under_way, probe = ARGV[OWN + 3] == '1', tonumber(ARGV[OWN + 4])

local reason, wait =
  look(SLOTS, OTHER_SLOTS, STARTS, OTHER_STARTS, under_way, under_way and probe > 0)
if reason ~= NOTHING then
  save()
  return report(0, probe, reason, wait)
end

redis.call('ZADD', SLOTS, now + LEASE, slot)
redis.call('ZADD', STARTS, now, start)
if host.state == PROBING then
  redis.call('ZADD', PROBES, now + LEASE, slot)
  probe = host.round
end
save()
return report(1, probe)
