-- The shared books of one host: what every script begins with.
--
-- The rules are those of the ledger in memory. Times are milliseconds of Redis's own clock, so
-- that instances need not agree on the time. Slots and probes are leases: a member whose score
-- has passed is nobody's any more.

local SLOTS, OTHER_SLOTS, STARTS, OTHER_STARTS = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local HOST, ANSWERS, FAILED, PROBES = KEYS[5], KEYS[6], KEYS[7], KEYS[8]

local LEASE = tonumber(ARGV[1])
local MAX_SLOTS, KEPT_SLOTS = tonumber(ARGV[2]), tonumber(ARGV[3])
local MAX_STARTS, KEPT_STARTS = tonumber(ARGV[4]), tonumber(ARGV[5])
local WINDOW = tonumber(ARGV[6])
local ANSWER_WINDOW, TRIP_PERCENT, MIN_ANSWERS = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local COOLDOWN, MAX_PROBES = tonumber(ARGV[10]), tonumber(ARGV[11])
local KEEP, RECHECK = tonumber(ARGV[12]), tonumber(ARGV[13])
-- Where the script's own arguments begin.
local OWN = 13

local MAX_ANSWERS = 256

local NOTHING, IN_FLIGHT, FULL, SHUT, ADVISED = 0, 1, 2, 3, 4
local PASSING, STATE_SHUT, PROBING = 0, 1, 2

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

for _, key in ipairs({SLOTS, OTHER_SLOTS, PROBES}) do
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
end
for _, key in ipairs({STARTS, OTHER_STARTS}) do
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now - WINDOW)
end
for _, key in ipairs({ANSWERS, FAILED}) do
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now - ANSWER_WINDOW)
end

local fields = redis.call('HMGET', HOST, 'state', 'until', 'passed', 'round', 'advised', 'why')
local host = {
  state = tonumber(fields[1]) or PASSING,
  shut_until = tonumber(fields[2]) or 0,
  passed = tonumber(fields[3]) or 0,
  round = tonumber(fields[4]) or 0,
  advised = tonumber(fields[5]) or 0,
  why = tonumber(fields[6]) or 0,
}
-- Whether `host` has to be written back.
local changed = false

if host.state == STATE_SHUT and host.shut_until <= now then
  host.state, host.passed, host.round = PROBING, 0, host.round + 1
  changed = true
end

local function lasts(key, ms)
  if redis.call('PTTL', key) < ms then
    redis.call('PEXPIRE', key, ms)
  end
end

-- Writes back what changed, and sees that an idle host leaves Redis by itself.
local function save()
  if changed then
    redis.call('HSET', HOST, 'state', host.state, 'until', host.shut_until, 'passed', host.passed,
      'round', host.round, 'advised', host.advised, 'why', host.why)
  end
  lasts(HOST, KEEP + math.max(0, host.shut_until - now, host.advised - now))
  lasts(SLOTS, LEASE)
  lasts(PROBES, LEASE)
  lasts(STARTS, WINDOW)
  lasts(ANSWERS, ANSWER_WINDOW)
  lasts(FAILED, ANSWER_WINDOW)
end

-- Whether one more fits into `limit`, with `kept` left to the other lane if that uses the host.
local function fits(own, other, kept, limit, shared)
  if not shared then
    kept = 0
  end
  return own + other + math.max(0, kept - other) < limit
end

local function score(key, rank)
  return tonumber(redis.call('ZRANGE', key, rank, rank, 'WITHSCORES')[2])
end

-- How long until a start fits: walks through the coming ends of starts, oldest first.
local function window_wait(starts, other_starts, other_slots)
  local own, other = redis.call('ZCARD', starts), redis.call('ZCARD', other_starts)
  local own_gone, other_gone, ends = 0, 0, nil
  while not fits(own - own_gone, other - other_gone, KEPT_STARTS, MAX_STARTS,
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
local function latest(advised, shut, window, slots_full)
  local reason, wait = NOTHING, 0
  if slots_full then
    reason, wait = IN_FLIGHT, RECHECK
  end
  for _, hold in ipairs({{FULL, window}, {SHUT, shut}, {ADVISED, advised}}) do
    local lasting = hold[2] or 0
    if lasting > 0 and (reason <= IN_FLIGHT or lasting >= wait) then
      reason, wait = hold[1], lasting
    end
  end
  return reason, wait
end

-- Why no request of a lane may go now. `under_way` tells of a slot that is held, `is_probe` that
-- it is a probe already.
local function look(slots, other_slots, starts, other_starts, under_way, is_probe)
  local own, other = redis.call('ZCARD', slots), redis.call('ZCARD', other_slots)
  local full = false
  if not under_way then
    local shared = other > 0 or redis.call('ZCARD', other_starts) > 0
    full = not fits(own, other, KEPT_SLOTS, MAX_SLOTS, shared)
  end
  if host.state == PROBING and not is_probe then
    full = full or redis.call('ZCARD', PROBES) >= MAX_PROBES
  end
  local shut = host.state == STATE_SHUT and host.shut_until - now
  return latest(host.advised - now, shut, window_wait(starts, other_starts, other), full)
end

-- What the caller learns beside the answer; the same in every script.
local function report(granted, probe, reason, wait)
  if not reason then
    reason, wait = look(SLOTS, OTHER_SLOTS, STARTS, OTHER_STARTS)
  end
  local other_reason, other_wait = look(OTHER_SLOTS, SLOTS, OTHER_STARTS, STARTS)
  local shut = host.state == STATE_SHUT and host.shut_until - now or 0
  return {
    granted, probe, reason, wait, other_reason, other_wait,
    redis.call('ZCARD', SLOTS) + redis.call('ZCARD', OTHER_SLOTS),
    redis.call('ZCARD', STARTS) + redis.call('ZCARD', OTHER_STARTS),
    host.state, shut, math.max(0, host.advised - now), host.why, redis.call('ZCARD', FAILED),
  }
end

