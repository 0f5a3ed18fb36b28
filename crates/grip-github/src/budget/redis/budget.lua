-- Settles calls that ended and takes one more, in one step, for one kind of call.
--
-- Keys: three of each token: what is known, calls under way by the end of their leases, calls
-- that nobody answered by the ticket that was the latest when they were given up.
-- Arguments: margin (ms), calls left to others, lease (ms), number of tokens, whether each may be
-- used (0 no, 1 yes, 2 if no other), the name of the call to take or '', then of each thing to
-- tell: token (0 = whichever has it), name, ticket, what, limit, remaining, reset (s by the
-- host's clock), time until then (ms).
-- Answers: the token taken from or 0, the ticket; then of each token: state, limit, remaining,
-- reset, time until the end (ms, -1 = not known), calls under way, calls lost.

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local now_us = clock[1] * 1000000 + clock[2]

local MARGIN, RESERVE, LEASE = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local COUNT = tonumber(ARGV[4])
local NAME = ARGV[5 + COUNT]

local UNKNOWN, UNMETERED, KNOWN = 0, 1, 2
local SAME_WINDOW = 1
local MOST, MANY = 2 ^ 52, 2 ^ 32

-- Numbers beyond 14 digits must not be written by Lua itself.
local function text(number)
  return string.format('%.0f', number)
end

local function lose(budget, name)
  redis.call('ZREM', budget.flight, name)
  redis.call('ZADD', budget.lost, text(budget.tickets), name)
  if redis.call('ZCARD', budget.lost) > math.max(budget.limit, 64) then
    redis.call('ZPOPMIN', budget.lost)
  end
  budget.changed = true
end

local function open(number)
  local budget = {
    key = KEYS[number * 3 - 2],
    flight = KEYS[number * 3 - 1],
    lost = KEYS[number * 3],
  }
  local fields = { 'state', 'limit', 'remaining', 'reset', 'ends', 'tickets' }
  local values = redis.call('HMGET', budget.key, unpack(fields))
  for i, field in ipairs(fields) do
    budget[field] = tonumber(values[i] or 0)
  end
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', budget.flight, '-inf', text(now))) do
    lose(budget, name)
  end
  if budget.state == KNOWN and budget.ends > 0 and now >= budget.ends + MARGIN then
    budget.remaining, budget.ends, budget.changed = budget.limit, 0, true
  end
  return budget
end

-- Of the answers of one window the lowest counts; one of an older window changes nothing.
local function learn(budget, limit, remaining, reset, reset_in)
  local ends = math.max(now + reset_in, 1)
  if budget.state == KNOWN and budget.ends > 0 then
    local is_same = math.abs(reset - budget.reset) <= SAME_WINDOW
    if not is_same and reset < budget.reset then
      return
    end
    if is_same then
      remaining = math.min(remaining, budget.remaining)
      ends = math.max(ends, budget.ends)
    end
  end
  budget.state, budget.limit, budget.remaining = KNOWN, limit, remaining
  budget.reset, budget.ends = reset, ends
end

local function tell(budget, name, ticket, what, limit, remaining, reset, reset_in)
  budget.changed = true
  if what == 'flight' then
    redis.call('ZADD', budget.flight, text(now + LEASE), name)
    return
  elseif what == 'learn' then
    learn(budget, limit, remaining, reset, reset_in)
    return
  end
  redis.call('ZREM', budget.flight, name)
  redis.call('ZREM', budget.lost, name)
  if what == 'quota' then
    redis.call('ZREMRANGEBYSCORE', budget.lost, '-inf', '(' .. text(ticket))
    learn(budget, limit, remaining, reset, reset_in)
  elseif what == 'unmetered' and budget.state == UNKNOWN then
    budget.state = UNMETERED
  elseif what ~= 'unused' and budget.state ~= UNMETERED then
    lose(budget, name)
  end
end

local function room(budget)
  local flight = redis.call('ZCARD', budget.flight)
  local alone = flight == 0 and MOST or 0
  if budget.state == UNKNOWN then
    return alone
  elseif budget.state == UNMETERED then
    return MANY
  end
  local kept = math.min(RESERVE, math.floor(budget.limit / 10))
  local spare = math.max(budget.remaining - kept - redis.call('ZCARD', budget.lost), 0)
  if spare == 0 then
    return budget.ends == 0 and alone or 0
  end
  return math.max(spare - flight, 0)
end

local function save(budget)
  local left = budget.ends > 0 and budget.ends - now or 0
  local keep = math.max(left + math.max(10000, MARGIN * 2), 60000)
  redis.call('HSET', budget.key, 'state', budget.state, 'limit', text(budget.limit),
    'remaining', text(budget.remaining), 'reset', text(budget.reset),
    'ends', text(budget.ends), 'tickets', text(budget.tickets))
  redis.call('PEXPIRE', budget.key, text(keep))
  redis.call('PEXPIRE', budget.lost, text(keep))
  redis.call('PEXPIRE', budget.flight, text(math.max(keep, LEASE)))
end

local budgets = {}
for number = 1, COUNT do
  budgets[number] = open(number)
end

for i = 6 + COUNT, #ARGV, 8 do
  local of, name, ticket, what = tonumber(ARGV[i]), ARGV[i + 1], tonumber(ARGV[i + 2]), ARGV[i + 3]
  local limit, remaining = tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5])
  local reset, reset_in = tonumber(ARGV[i + 6]), tonumber(ARGV[i + 7])
  for number = 1, COUNT do
    if of == 0 or of == number then
      tell(budgets[number], name, ticket, what, limit, remaining, reset, reset_in)
    end
  end
end

local taken, most = 0, 0
if NAME ~= '' then
  for number = 1, COUNT do
    local may = ARGV[4 + number]
    local calls = may ~= '0' and room(budgets[number]) or 0
    -- The last choice, but one.
    if may == '2' then
      calls = math.min(calls, 0.5)
    end
    if calls > most then
      taken, most = number, calls
    end
  end
end
local ticket = 0
if taken > 0 then
  local budget = budgets[taken]
  -- By the clock, so that tickets go up also where Redis has forgotten the last one.
  budget.tickets = math.max(budget.tickets + 1, now_us)
  budget.changed = true
  ticket = budget.tickets
  redis.call('ZADD', budget.flight, text(now + LEASE), NAME)
end

local answer = { taken, ticket }
for number = 1, COUNT do
  local budget = budgets[number]
  if budget.changed then
    save(budget)
  end
  local left = budget.ends > 0 and math.max(budget.ends - now, 0) or -1
  local counts = { redis.call('ZCARD', budget.flight), redis.call('ZCARD', budget.lost) }
  local facts = { budget.state, budget.limit, budget.remaining, budget.reset, left, unpack(counts) }
  for _, fact in ipairs(facts) do
    answer[#answer + 1] = fact
  end
end
return answer
