-- Takes a slot back with what its use taught us. Doing it twice does no harm.
-- Own arguments: slot, the start to give back or '', verdict, the probe's round or 0,
-- how long the host asked us to wait (ms), why.

local slot, start = ARGV[OWN + 1], ARGV[OWN + 2]
local verdict, probe = ARGV[OWN + 3], tonumber(ARGV[OWN + 4])
local wait, why = tonumber(ARGV[OWN + 5]), tonumber(ARGV[OWN + 6])

local function shut()
  host.state, host.shut_until = STATE_SHUT, now + COOLDOWN
  changed = true
end

local function note(failed)
  redis.call('ZADD', ANSWERS, now, slot)
  if failed then
    redis.call('ZADD', FAILED, now, slot)
  end
  while redis.call('ZCARD', ANSWERS) > MAX_ANSWERS do
    redis.call('ZREM', FAILED, redis.call('ZPOPMIN', ANSWERS)[1])
  end
end

local function is_failing()
  local answers, failed = redis.call('ZCARD', ANSWERS), redis.call('ZCARD', FAILED)
  return answers >= MIN_ANSWERS and failed * 100 >= answers * TRIP_PERCENT
end

-- Decides on the answer to a probe of this round. A neutral one is good: the host talks.
local function judge()
  if verdict == 'failure' then
    shut()
  elseif host.passed + 1 < MAX_PROBES then
    host.passed = host.passed + 1
  else
    host.state, host.passed = PASSING, 0
    redis.call('DEL', ANSWERS, FAILED)
  end
  changed = true
end

redis.call('ZREM', SLOTS, slot)
redis.call('ZREM', PROBES, slot)
if start ~= '' then
  redis.call('ZREM', STARTS, start)
end
if wait > 0 and host.advised < now + wait then
  host.advised, host.why = now + wait, why
  changed = true
end
if verdict == 'success' or verdict == 'failure' then
  note(verdict == 'failure')
end
if verdict ~= '' then
  if host.state == PASSING and verdict == 'failure' and is_failing() then
    shut()
  elseif host.state == PROBING and probe > 0 and probe == host.round then
    judge()
  end
end
save()
return report(1, 0)
