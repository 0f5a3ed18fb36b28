-- Applies what instances settled at one host and takes a slot and a start, in one step.
--
-- The rules are those of the ledger in memory. Times are milliseconds of Redis's own clock, so
-- that instances need not agree on the time. Slots and probes are leases: a member whose score
-- has passed is nobody's any more.
--
-- Arguments: 14 settings; what to take: lane (0 = nothing), slot, start, 1 if the slot is held
-- already, the probe's round or 0; then of each update: what, lane, slot, start, verdict, the
-- probe's round or 0, milliseconds, why.

local SLOTS, STARTS = { KEYS[1], KEYS[2] }, { KEYS[3], KEYS[4] }
local HOST, ANSWERS, FAILED, PROBES = KEYS[5], KEYS[6], KEYS[7], KEYS[8]

local LEASE = tonumber(ARGV[1])
local MAX_SLOTS, RESERVED_SLOTS = tonumber(ARGV[2]), tonumber(ARGV[3])
local MAX_STARTS, RESERVED_STARTS = tonumber(ARGV[4]), tonumber(ARGV[5])
local WINDOW = tonumber(ARGV[6])
local ANSWER_WINDOW, TRIP_PERCENT, MIN_ANSWERS = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local COOLDOWN, MAX_PROBES = tonumber(ARGV[10]), tonumber(ARGV[11])
local KEEP, RECHECK, MAX_ANSWERS = tonumber(ARGV[12]), tonumber(ARGV[13]), tonumber(ARGV[14])
local TAKE, UPDATES = 15, 20

local NOTHING, IN_FLIGHT, WINDOW_FULL, BREAKER_OPEN, ADVISED = 0, 1, 2, 3, 4
local CLOSED, OPEN, HALF_OPEN = 0, 1, 2

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

for _, key in ipairs({SLOTS[1], SLOTS[2], PROBES}) do
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
end
for _, key in ipairs(STARTS) do
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now - WINDOW)
end
for _, key in ipairs({ANSWERS, FAILED}) do
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now - ANSWER_WINDOW)
end

local fields = redis.call('HMGET', HOST, 'state', 'until', 'passed', 'round', 'advised', 'why')
local host = {
  state = tonumber(fields[1]) or CLOSED,
  open_until = tonumber(fields[2]) or 0,
  passed = tonumber(fields[3]) or 0,
  round = tonumber(fields[4]) or 0,
  advised = tonumber(fields[5]) or 0,
  why = tonumber(fields[6]) or 0,
}
-- Whether `host` has to be written back.
local changed = false

if host.state == OPEN and host.open_until <= now then
  host.state, host.passed, host.round = HALF_OPEN, 0, host.round + 1
  changed = true
end

local function open()
  host.state, host.open_until = OPEN, now + COOLDOWN
  changed = true
end

local function record(slot, failed)
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

-- Decides on the outcome of a probe of this round. A neutral one is good: the host responds.
local function end_probe(verdict)
  if verdict == 'failure' then
    open()
  elseif host.passed + 1 < MAX_PROBES then
    host.passed = host.passed + 1
  else
    host.state, host.passed = CLOSED, 0
    redis.call('DEL', ANSWERS, FAILED)
  end
  changed = true
end

local function free(lane, slot, start, verdict, probe, wait, why)
  redis.call('ZREM', SLOTS[lane], slot)
  redis.call('ZREM', PROBES, slot)
  if start ~= '' then
    redis.call('ZREM', STARTS[lane], start)
  end
  if wait > 0 and host.advised < now + wait then
    host.advised, host.why = now + wait, why
    changed = true
  end
  if verdict == 'success' or verdict == 'failure' then
    record(slot, verdict == 'failure')
  end
  if verdict == '' then
    return
  end
  if host.state == CLOSED and verdict == 'failure' and is_failing() then
    open()
  elseif host.state == HALF_OPEN and probe > 0 and probe == host.round then
    end_probe(verdict)
  end
end

for i = UPDATES, #ARGV, 8 do
  local what, lane, slot, start = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2], ARGV[i + 3]
  local ms = tonumber(ARGV[i + 6])
  if what == 'held' then
    -- One that is not there is put there: whether its lease ran out or Redis lost it, its request
    -- is in flight.
    redis.call('ZADD', SLOTS[lane], now + LEASE, slot)
    redis.call('ZADD', PROBES, 'XX', now + LEASE, slot)
  elseif what == 'started' then
    redis.call('ZADD', STARTS[lane], 'NX', now - ms, start)
  else
    free(lane, slot, start, ARGV[i + 4], tonumber(ARGV[i + 5]), ms, tonumber(ARGV[i + 7]))
  end
end

-- Whether one more fits into `limit`, with `reserved` left to the other lane if that uses the host.
local function fits(own, other, reserved, limit, shared)
  if not shared then
    reserved = 0
  end
  return own + other + math.max(0, reserved - other) < limit
end

local function score(key, rank)
  return tonumber(redis.call('ZRANGE', key, rank, rank, 'WITHSCORES')[2])
end

-- How long until a start fits: walks through the coming ends of starts, oldest first.
local function window_wait(starts, other_starts, other_slots)
  local own, other = redis.call('ZCARD', starts), redis.call('ZCARD', other_starts)
  local own_gone, other_gone, ends = 0, 0, nil
  while not fits(own - own_gone, other - other_gone, RESERVED_STARTS, MAX_STARTS,
      other > other_gone or other_slots > 0) do
    local mine, theirs = score(starts, own_gone), score(other_starts, other_gone)
    if mine and (not theirs or mine <= theirs) then
      own_gone, ends = own_gone + 1, mine
    elseif theirs then
      other_gone, ends = other_gone + 1, theirs
    else
      return nil
    end
  end
  return ends and ends + WINDOW - now
end

-- The hold that lasts longest, and how long; waiting for a slot only where time holds nothing.
local function latest(advised, open_wait, window, slots_full)
  local reason, wait = NOTHING, 0
  if slots_full then
    reason, wait = IN_FLIGHT, RECHECK
  end
  for _, hold in ipairs({{WINDOW_FULL, window or 0}, {BREAKER_OPEN, open_wait}, {ADVISED, advised}}) do
    if hold[2] > 0 and (reason <= IN_FLIGHT or hold[2] >= wait) then
      reason, wait = hold[1], hold[2]
    end
  end
  return reason, wait
end

local function open_wait()
  return host.state == OPEN and host.open_until - now or 0
end

-- Why no request of a lane may go now. `under_way` tells of a slot that is held, `is_probe` that
-- it is a probe already.
local function check(lane, under_way, is_probe)
  local slots, other_slots = SLOTS[lane], SLOTS[3 - lane]
  local starts, other_starts = STARTS[lane], STARTS[3 - lane]
  local own, other = redis.call('ZCARD', slots), redis.call('ZCARD', other_slots)
  local full = false
  if not under_way then
    local shared = other > 0 or redis.call('ZCARD', other_starts) > 0
    full = not fits(own, other, RESERVED_SLOTS, MAX_SLOTS, shared)
  end
  if host.state == HALF_OPEN and not is_probe then
    full = full or redis.call('ZCARD', PROBES) >= MAX_PROBES
  end
  return latest(host.advised - now, open_wait(), window_wait(starts, other_starts, other), full)
end

local lane, slot, start = tonumber(ARGV[TAKE]), ARGV[TAKE + 1], ARGV[TAKE + 2]
local under_way, probe = ARGV[TAKE + 3] == '1', tonumber(ARGV[TAKE + 4])
local granted, reason, wait = 0, NOTHING, 0
if lane > 0 then
  reason, wait = check(lane, under_way, under_way and probe > 0)
  if reason == NOTHING then
    granted = 1
    redis.call('ZADD', SLOTS[lane], now + LEASE, slot)
    redis.call('ZADD', STARTS[lane], now, start)
    if host.state == HALF_OPEN then
      redis.call('ZADD', PROBES, now + LEASE, slot)
      probe = host.round
    end
  end
end

-- Sees that an idle host leaves Redis by itself.
local function lasts(key, ms)
  if redis.call('PTTL', key) < ms then
    redis.call('PEXPIRE', key, ms)
  end
end

if changed then
  redis.call('HSET', HOST, 'state', host.state, 'until', host.open_until, 'passed', host.passed,
    'round', host.round, 'advised', host.advised, 'why', host.why)
end
lasts(HOST, KEEP + math.max(0, host.open_until - now, host.advised - now))
for i = 1, 2 do
  lasts(SLOTS[i], LEASE)
  lasts(STARTS[i], WINDOW)
end
lasts(PROBES, LEASE)
lasts(ANSWERS, ANSWER_WINDOW)
lasts(FAILED, ANSWER_WINDOW)

local git_reason, git_wait = check(1)
local api_reason, api_wait = check(2)
return {
  granted, probe, reason, wait, git_reason, git_wait, api_reason, api_wait,
  redis.call('ZCARD', SLOTS[1]) + redis.call('ZCARD', SLOTS[2]),
  redis.call('ZCARD', STARTS[1]) + redis.call('ZCARD', STARTS[2]),
  host.state, open_wait(), math.max(0, host.advised - now), host.why, redis.call('ZCARD', FAILED),
}
