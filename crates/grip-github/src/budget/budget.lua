-- Applies how calls ended and takes one more, in one step, for all budgets of all tokens.
--
-- Keys: one hash of each token. Its fields begin with the kind of call: `core.state`,
-- `core.limit` …, `core.flight.<call>` with the end of the call's lease, `core.lost.<call>` with
-- the ticket that was the latest when the call was given up.
-- Arguments: margin (ms), calls left to others, lease (ms), the kind of call to take or '', its
-- name, of each token whether it may be used (0 no, 1 yes, 2 if no other); then of each update:
-- token (0 = whichever has it), kind of call, name, ticket, what, limit, remaining, reset (s by the
-- host's clock), time until then (ms).
-- Response: the token taken from or 0, the ticket; then of each budget: token, kind, state, limit,
-- remaining, reset, time until the end (ms, -1 = not known), calls in flight, calls lost.

local RESOURCES = { 'core', 'search', 'code_search', 'other', 'graphql' }

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local now_us = clock[1] * 1000000 + clock[2]

local MARGIN, RESERVE, LEASE = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local TAKE, NAME = ARGV[4], ARGV[5]
local UPDATES = 6 + #KEYS

local UNKNOWN, UNMETERED, KNOWN = 0, 1, 2
local SAME_WINDOW = 1
local MOST, MANY = 2 ^ 52, 2 ^ 32

-- Numbers beyond 14 digits must not be written by Lua itself.
local function text(number)
  return string.format('%.0f', number)
end

local tokens = {}

local function budget_of(number, resource)
  local token = tokens[number]
  if not token[resource] then
    token[resource] = {
      key = KEYS[number], resource = resource, state = UNKNOWN, limit = 0, remaining = 0,
      reset = 0, ends = 0, tickets = 0, flight = {}, lost = {}, count = { flight = 0, lost = 0 },
    }
  end
  return token[resource]
end

-- Sets or removes a call in flight or a lost one.
local function set_call(budget, kind, name, value)
  local before = budget[kind][name]
  if before == value then
    return
  end
  budget[kind][name], budget.changed = value, true
  local field = budget.resource .. '.' .. kind .. '.' .. name
  if value then
    redis.call('HSET', budget.key, field, text(value))
  else
    redis.call('HDEL', budget.key, field)
  end
  budget.count[kind] = budget.count[kind] + (value and 1 or 0) - (before and 1 or 0)
end

local function remove_lost(budget, before)
  local oldest
  for name, ticket in pairs(budget.lost) do
    if before and ticket < before then
      set_call(budget, 'lost', name, nil)
    elseif not oldest or ticket < budget.lost[oldest] then
      oldest = name
    end
  end
  return oldest
end

local function lose(budget, name)
  set_call(budget, 'flight', name, nil)
  set_call(budget, 'lost', name, budget.tickets)
  if budget.count.lost > math.max(budget.limit, 64) then
    set_call(budget, 'lost', remove_lost(budget), nil)
  end
end

local function load(number)
  tokens[number] = {}
  local fields = redis.call('HGETALL', KEYS[number])
  for i = 1, #fields, 2 do
    local resource, kind, name = string.match(fields[i], '^([%a_]+)%.(%a+)%.?(.*)$')
    local budget = budget_of(number, resource)
    if name == '' then
      budget[kind] = tonumber(fields[i + 1])
    else
      budget[kind][name] = tonumber(fields[i + 1])
      budget.count[kind] = budget.count[kind] + 1
    end
  end
  for _, budget in pairs(tokens[number]) do
    local ended = {}
    for name, ends in pairs(budget.flight) do
      if ends <= now then
        ended[#ended + 1] = name
      end
    end
    for _, name in ipairs(ended) do
      lose(budget, name)
    end
    if budget.state == KNOWN and budget.ends > 0 and now >= budget.ends + MARGIN then
      budget.remaining, budget.ends, budget.changed = budget.limit, 0, true
    end
  end
end

-- Of the responses of one window the lowest counts; one of an older window changes nothing.
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

local function update(budget, name, ticket, what, limit, remaining, reset, reset_in)
  budget.changed = true
  if what == 'known' then
    learn(budget, limit, remaining, reset, reset_in)
    return
  end
  set_call(budget, 'lost', name, nil)
  if what == 'flight' then
    set_call(budget, 'flight', name, now + LEASE)
    return
  end
  set_call(budget, 'flight', name, nil)
  if what == 'quota' then
    remove_lost(budget, ticket)
    learn(budget, limit, remaining, reset, reset_in)
  elseif what == 'unmetered' and budget.state == UNKNOWN then
    budget.state = UNMETERED
  elseif what ~= 'unused' and budget.state ~= UNMETERED then
    lose(budget, name)
  end
end

local function available(budget)
  local flight = budget.count.flight
  local alone = flight == 0 and MOST or 0
  if budget.state == UNKNOWN then
    return alone
  elseif budget.state == UNMETERED then
    return MANY
  end
  local reserved = math.min(RESERVE, math.floor(budget.limit / 10))
  local spare = math.max(budget.remaining - reserved - budget.count.lost, 0)
  if spare == 0 then
    return budget.ends == 0 and alone or 0
  end
  return math.max(spare - flight, 0)
end

for number = 1, #KEYS do
  load(number)
end

for i = UPDATES, #ARGV, 9 do
  local of, resource, name, ticket = tonumber(ARGV[i]), ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3])
  local limit, remaining = tonumber(ARGV[i + 5]), tonumber(ARGV[i + 6])
  local reset, reset_in = tonumber(ARGV[i + 7]), tonumber(ARGV[i + 8])
  for number = 1, #KEYS do
    if of == 0 or of == number then
      local budget = budget_of(number, resource)
      update(budget, name, ticket, ARGV[i + 4], limit, remaining, reset, reset_in)
    end
  end
end

local taken, most, ticket = 0, 0, 0
if TAKE ~= '' then
  for number = 1, #KEYS do
    local may = ARGV[5 + number]
    local budget = budget_of(number, TAKE)
    local calls = may ~= '0' and available(budget) or 0
    -- The last choice, but one.
    if may == '2' then
      calls = math.min(calls, 0.5)
    end
    if calls > most then
      taken, most = number, calls
    end
  end
end
if taken > 0 then
  local budget = budget_of(taken, TAKE)
  -- By the clock, so that tickets go up also where Redis has forgotten the last one.
  budget.tickets = math.max(budget.tickets + 1, now_us)
  ticket = budget.tickets
  set_call(budget, 'flight', NAME, now + LEASE)
end

local response = { taken, ticket }
for number = 1, #KEYS do
  local changed, keep = false, math.max(60000, LEASE)
  for kind, resource in ipairs(RESOURCES) do
    local budget = tokens[number][resource]
    if budget then
      local left = budget.ends > 0 and budget.ends - now or 0
      keep = math.max(keep, left + math.max(10000, MARGIN * 2))
      if budget.changed then
        changed = true
        for _, field in ipairs({ 'state', 'limit', 'remaining', 'reset', 'ends', 'tickets' }) do
          redis.call('HSET', budget.key, resource .. '.' .. field, text(budget[field]))
        end
      end
      left = budget.ends > 0 and math.max(left, 0) or -1
      for _, fact in ipairs({ number, kind, budget.state, budget.limit, budget.remaining,
        budget.reset, left, budget.count.flight, budget.count.lost }) do
        response[#response + 1] = fact
      end
    end
  end
  if changed then
    redis.call('PEXPIRE', KEYS[number], text(keep))
  end
end
return response
