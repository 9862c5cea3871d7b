"""What the Redis store asks of the server, each a Lua script: one call is one step, never seen half done.

Keys, all behind the prefix in ARGV[1]: `members` (sorted set: owner -> its last beat in seconds, server
time), `kinds` and `gates` (sets of names), `record:<kind>` (hash: key -> owner, line feed, value),
`hold:<gate>` (set), `wait:<gate>` and `behind:<gate>` (sorted sets by number of arrival) of `<owner>
<ticket>`, `number`, `messages` (a stream). ARGV[2] is the owner, ARGV[3] the lease in seconds. Needs Redis 5:
its clock is read in scripts that write.
"""

from __future__ import annotations

_HEAD = """
local P, owner, lease = ARGV[1], ARGV[2], tonumber(ARGV[3])
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local function tell(text) redis.call('XADD', P .. 'messages', 'MAXLEN', '~', 1000, '*', 'm', text) end
local function owner_of(text, mark) return string.sub(text, 1, string.find(text, mark, 1, true) - 1) end
local function living(kind, key)
  local found = redis.call('HGET', P .. 'record:' .. kind, key)
  if not found then return nil end
  local beat = redis.call('ZSCORE', P .. 'members', owner_of(found, '\\n'))
  if not beat or tonumber(beat) < now - lease then return nil end
  return found
end
local function drop(dead)
  local gone = {}
  for _, name in ipairs(dead) do
    gone[name] = true
    redis.call('ZREM', P .. 'members', name)
  end
  for _, kind in ipairs(redis.call('SMEMBERS', P .. 'kinds')) do
    local all = redis.call('HGETALL', P .. 'record:' .. kind)
    for i = 1, #all, 2 do
      if gone[owner_of(all[i + 1], '\\n')] then redis.call('HDEL', P .. 'record:' .. kind, all[i]) end
    end
  end
  for _, gate in ipairs(redis.call('SMEMBERS', P .. 'gates')) do
    for _, place in ipairs(redis.call('SMEMBERS', P .. 'hold:' .. gate)) do
      if gone[owner_of(place, ' ')] then redis.call('SREM', P .. 'hold:' .. gate, place) end
    end
    for _, queue in ipairs({'wait:', 'behind:'}) do
      for _, place in ipairs(redis.call('ZRANGE', P .. queue .. gate, 0, -1)) do
        if gone[owner_of(place, ' ')] then redis.call('ZREM', P .. queue .. gate, place) end
      end
    end
    tell('gate ' .. gate)
  end
end
local function bury()
  local dead = redis.call('ZRANGEBYSCORE', P .. 'members', '-inf', '(' .. (now - lease))
  if #dead > 0 then drop(dead) end
end
"""

_KNOWN = (
    _HEAD
    + """
if not redis.call('ZSCORE', P .. 'members', owner) then return redis.error_reply('FORGOTTEN owner') end
"""
)

JOIN = (
    _HEAD
    + """
redis.call('INCR', P .. 'number')  -- first: who is out of memory says so only before anything is written
drop({ARGV[4]})
redis.call('ZADD', P .. 'members', now, owner)
return 1
"""
)

BEAT = (
    _HEAD
    + """
bury()
if not redis.call('ZSCORE', P .. 'members', owner) then return 0 end
redis.call('ZADD', P .. 'members', now, owner)
return 1
"""
)

PUT = (
    _KNOWN
    + """
local kind, key, value, only_if_free = ARGV[4], ARGV[5], ARGV[6], ARGV[7] == '1'
redis.call('SADD', P .. 'kinds', kind)
local before = living(kind, key)
if not (only_if_free and before) then
  redis.call('HSET', P .. 'record:' .. kind, key, owner .. '\\n' .. value)
end
return before or false
"""
)

FIND = _HEAD + "return living(ARGV[4], ARGV[5]) or false"

REMOVE = (
    _HEAD
    + """
local record = P .. 'record:' .. ARGV[4]
local mine = owner .. '\\n' .. ARGV[6]
if redis.call('HGET', record, ARGV[5]) == mine then redis.call('HDEL', record, ARGV[5]) end
return 1
"""
)

TURNS = (
    _KNOWN
    + """
local gate, limit, places = ARGV[4], tonumber(ARGV[5]), cjson.decode(ARGV[6])
local hold, wait, behind = P .. 'hold:' .. gate, P .. 'wait:' .. gate, P .. 'behind:' .. gate
local leaves = false
bury()
for _, ticket in ipairs(places.leave) do
  local place = owner .. ' ' .. ticket
  redis.call('SREM', hold, place)
  redis.call('ZREM', wait, place)
  redis.call('ZREM', behind, place)
  leaves = true
end
for _, ticket in ipairs(places.hold) do
  local place = owner .. ' ' .. ticket
  redis.call('ZREM', wait, place)
  redis.call('ZREM', behind, place)
  redis.call('SADD', hold, place)
end
local function stand(queue, tickets)
  for _, ticket in ipairs(tickets) do
    local place = owner .. ' ' .. ticket
    if queue == wait then redis.call('ZREM', behind, place) end
    if redis.call('SISMEMBER', hold, place) == 0 then
      redis.call('ZADD', queue, 'NX', redis.call('INCR', P .. 'number'), place)
    end
  end
end
stand(wait, places.wait)
stand(behind, places.behind)
redis.call('SADD', P .. 'gates', gate)
local held = redis.call('SCARD', hold)
local queue, turns = wait, {}
if held < limit then
  turns = redis.call('ZRANGE', wait, 0, limit - held - 1)
  if #turns == 0 and held == 0 then
    queue = behind
    turns = redis.call('ZRANGE', behind, 0, 0)
  end
end
local mine, others = {}, false
for _, place in ipairs(turns) do
  if owner_of(place, ' ') == owner then
    redis.call('ZREM', queue, place)
    redis.call('SADD', hold, place)
    mine[#mine + 1] = string.sub(place, #owner + 2)
  else
    others = true
  end
end
if leaves and others then tell('gate ' .. gate) end
if redis.call('EXISTS', hold, wait, behind) == 0 then redis.call('SREM', P .. 'gates', gate) end
return mine
"""
)

WAITING = _HEAD + "bury() return redis.call('ZCARD', P .. 'wait:' .. ARGV[4])"

TELL = _HEAD + "tell(ARGV[4]) return 1"

SCRIPTS = {
    "JOIN": JOIN,
    "BEAT": BEAT,
    "PUT": PUT,
    "FIND": FIND,
    "REMOVE": REMOVE,
    "TURNS": TURNS,
    "WAITING": WAITING,
    "TELL": TELL,
}
