"""What the Redis store asks of the server, each a Lua script: one call is one step, never seen half done.

Of `turns.py` and `budgets.py` they have the same rules; tests hold both to one answer.
"""

from __future__ import annotations

from Middleware.services.shared_state.budgets import DAY_LIFE_S, FULL_S
from Middleware.services.shared_state.turns import BACKGROUND_WAIT_S, ROW

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
    for _, place in ipairs(redis.call('HKEYS', P .. 'asks:' .. gate)) do
      if gone[owner_of(place, ' ')] then redis.call('HDEL', P .. 'asks:' .. gate, place) end
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

_CHOICE = (
    f"""
local ROW, BACKGROUND_WAIT_S = {ROW}, {BACKGROUND_WAIT_S}
"""
    + """
-- The rule of turns.py. An ask: {machine, model, name, background, when it came}; a row: {model, turns}.
local NOTHING = {'', '', '', false}
local function grow_row(row, model)
  if row and row[1] == model then return {model, row[2] + 1} end
  return {model, 1}
end
local function note_turn(rounds, ask)
  if ask[3] ~= '' then
    rounds.number = rounds.number + 1
    rounds.last[ask[3]] = rounds.number
    rounds.people = ask[4] and 0 or rounds.people + 1
  end
end
local function next_model(asked, row)
  local other, again = nil, false
  for _, model in ipairs(asked) do
    if row and model == row[1] then again = true else other = other or model end
  end
  if not row then return asked[1] end
  if not other or (again and row[2] < ROW) then return row[1] end
  return other
end
local function class_to_serve(left, asks, limit, background_held, rounds)
  local people, background, waited = {}, {}, 0
  for _, place in ipairs(left) do
    local ask = asks[place] or NOTHING
    if ask[4] then
      background[#background + 1] = place
      waited = math.max(waited, now - ask[5])
    else
      people[#people + 1] = place
    end
  end
  if limit > 1 and background_held >= limit - 1 then background = {} end
  if #people > 0 and #background > 0 and rounds.people >= ROW and waited >= BACKGROUND_WAIT_S then
    return background
  end
  return #people > 0 and people or background
end
local function next_place(tickets, asks, rows, under_way, held, last)
  local models, first, served = {}, {}, {}
  for i, place in ipairs(tickets) do
    local ask = asks[place] or NOTHING
    if ask[1] ~= '' then
      first[ask[1]] = first[ask[1]] or i
      models[ask[1]] = models[ask[1]] or {}
      table.insert(models[ask[1]], ask[2])
    end
  end
  for machine, asked in pairs(models) do
    local model = next_model(asked, rows[machine])
    if (under_way[machine] or model) == model then served[machine] = model end
  end
  local best, least = nil, nil
  for i, place in ipairs(tickets) do
    local ask = asks[place] or NOTHING
    if ask[1] == '' or served[ask[1]] == ask[2] then
      local rank = {held[ask[3]] or 0, last[ask[3]] or 0, first[ask[1]] or i}
      for k = 1, 3 do
        if not least or rank[k] < least[k] then
          best, least = place, rank
          break
        elseif rank[k] > least[k] then
          break
        end
      end
    end
  end
  return best
end
local function choose(left, holders, room, limit, asks, rows, rounds, one_model)
  local all, turns, held, under_way, background_held = {}, {}, {}, {}, 0
  for machine, row in pairs(rows) do all[machine] = row end
  local now_on = {last = {}, number = rounds.number, people = rounds.people}
  for name, number in pairs(rounds.last) do now_on.last[name] = number end
  local function hold(ask)
    held[ask[3]] = (held[ask[3]] or 0) + 1
    if ask[4] then background_held = background_held + 1 end
    if one_model and ask[1] ~= '' then under_way[ask[1]] = ask[2] end
  end
  for _, place in ipairs(holders) do hold(asks[place] or NOTHING) end
  while #turns < room do
    local tickets = class_to_serve(left, asks, limit, background_held, now_on)
    local place = next_place(tickets, asks, all, under_way, held, now_on.last)
    if not place then break end
    for i, one in ipairs(left) do
      if one == place then table.remove(left, i) break end
    end
    turns[#turns + 1] = place
    local ask = asks[place] or NOTHING
    hold(ask)
    note_turn(now_on, ask)
    if ask[1] ~= '' then all[ask[1]] = grow_row(all[ask[1]], ask[2]) end
  end
  return turns
end
"""
)

TURNS = (
    _KNOWN
    + _CHOICE
    + """
local gate, limit, places, one_model = ARGV[4], tonumber(ARGV[5]), cjson.decode(ARGV[6]), ARGV[7] == '1'
local hold, wait, behind = P .. 'hold:' .. gate, P .. 'wait:' .. gate, P .. 'behind:' .. gate
local asks_key, rows_key, last_key = P .. 'asks:' .. gate, P .. 'rows:' .. gate, P .. 'last:' .. gate
local leaves = false
bury()
if redis.call('EXISTS', hold, wait, behind) == 0 then redis.call('DEL', last_key) end
for _, ticket in ipairs(places.leave) do
  local place = owner .. ' ' .. ticket
  redis.call('SREM', hold, place)
  redis.call('ZREM', wait, place)
  redis.call('ZREM', behind, place)
  redis.call('HDEL', asks_key, place)
  leaves = true
end
for ticket, ask in pairs(places.asks) do
  local place = owner .. ' ' .. ticket
  if ask[4] then
    local told = redis.call('HGET', asks_key, place)
    ask[5] = told and cjson.decode(told)[5] or now
  end
  redis.call('HSET', asks_key, place, cjson.encode(ask))
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
local asks, rows, rounds, any = {}, {}, {last = {}, number = 0, people = 0}, false
local held = redis.call('SCARD', hold)
local queue, room, turns = wait, limit - held, {}
if redis.call('ZCARD', wait) == 0 and held == 0 then
  queue, room = behind, math.min(room, 1)
end
if room > 0 then
  local found = redis.call('HGETALL', asks_key)
  for i = 1, #found, 2 do
    asks[found[i]] = cjson.decode(found[i + 1])
    any = true
  end
end
if any then
  local found = redis.call('HGETALL', rows_key)
  for i = 1, #found, 2 do rows[found[i]] = cjson.decode(found[i + 1]) end
  found = redis.call('HGETALL', last_key)
  for i = 1, #found, 2 do
    local number = tonumber(found[i + 1])
    if found[i] == '' then
      rounds.people = number
    else
      rounds.last[found[i]] = number
      rounds.number = math.max(rounds.number, number)
    end
  end
  turns = choose(redis.call('ZRANGE', queue, 0, -1), redis.call('SMEMBERS', hold), room, limit, asks, rows,
    rounds, one_model)
elseif room > 0 then
  turns = redis.call('ZRANGE', queue, 0, room - 1)
end
local mine, others = {}, false
for _, place in ipairs(turns) do
  if owner_of(place, ' ') == owner then
    redis.call('ZREM', queue, place)
    redis.call('SADD', hold, place)
    mine[#mine + 1] = string.sub(place, #owner + 2)
    local ask = asks[place] or NOTHING
    if ask[1] ~= '' then
      rows[ask[1]] = grow_row(rows[ask[1]], ask[2])
      redis.call('HSET', rows_key, ask[1], cjson.encode(rows[ask[1]]))
      redis.call('EXPIRE', rows_key, 86400)
    end
    if ask[3] ~= '' then
      note_turn(rounds, ask)
      redis.call('HSET', last_key, ask[3], rounds.number, '', rounds.people)
      redis.call('EXPIRE', last_key, 86400)
    end
  else
    others = true
  end
end
if leaves and others then tell('gate ' .. gate) end
for _, ticket in ipairs(places.spare) do
  local place = owner .. ' ' .. ticket
  local ask = asks[place]
  local free = redis.call('EXISTS', wait, behind) == 0 and redis.call('SCARD', hold) < limit
  if ask and ask[1] ~= '' then
    local row = rows[ask[1]]
    free = free and row and row[1] == ask[2]
    for _, other in ipairs(redis.call('SMEMBERS', hold)) do
      local its = asks[other]
      if its and its[1] == ask[1] and its[2] ~= ask[2] then free = false end
    end
  end
  if free then
    redis.call('SADD', hold, place)
    mine[#mine + 1] = ticket
  else
    redis.call('HDEL', asks_key, place)
  end
end
if redis.call('EXISTS', hold, wait, behind) == 0 then redis.call('SREM', P .. 'gates', gate) end
return mine
"""
)

WAITING = (
    _HEAD
    + """
bury()
local wait = P .. 'wait:' .. ARGV[4]
local before = redis.call('ZCARD', wait)
if ARGV[5] ~= '' then before = redis.call('ZRANK', wait, owner .. ' ' .. ARGV[5]) or 0 end
if ARGV[6] == '0' or before == 0 then return before end
local of_name = 0
for _, place in ipairs(redis.call('ZRANGE', wait, 0, before - 1)) do
  local ask = redis.call('HGET', P .. 'asks:' .. ARGV[4], place)
  if (ask and cjson.decode(ask)[3] or '') == ARGV[7] then of_name = of_name + 1 end
end
return of_name
"""
)

CROWD = (
    _HEAD
    + """
local gate, key = ARGV[4], ARGV[5]
bury()
local function of_key(places)
  local count = 0
  for _, place in ipairs(places) do
    local ask = redis.call('HGET', P .. 'asks:' .. gate, place)
    local name = ask and cjson.decode(ask)[3]
    if name == key or (name and string.sub(name, 1, #key + 1) == key .. ' ') then count = count + 1 end
  end
  return count
end
local waiting = 0
for _, queue in ipairs({'wait:', 'behind:'}) do
  waiting = waiting + of_key(redis.call('ZRANGE', P .. queue .. gate, 0, -1))
end
return {of_key(redis.call('SMEMBERS', P .. 'hold:' .. gate)), waiting}
"""
)

TAKE = (
    _HEAD
    + f"""
local FULL_S = {FULL_S}
"""
    + """
local bucket, size, at_most = P .. 'bucket:' .. ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local wanted = tonumber(ARGV[7])
local level, found = size, redis.call('HMGET', bucket, 'level', 'at')
if found[1] then
  level = math.min(size, tonumber(found[1]) + math.max(0, now - tonumber(found[2])) * size / FULL_S)
end
level = math.min(level, at_most)
local took = level >= wanted
if took then level = level - wanted end
redis.call('HSET', bucket, 'level', string.format('%.9f', level), 'at', string.format('%.6f', now))
redis.call('EXPIRE', bucket, FULL_S)
return {took and 1 or 0, string.format('%.9f', level)}
"""
)

COUNT = (
    _HEAD
    + f"""
local DAY_LIFE_S = {DAY_LIFE_S}
"""
    + """
local sums = P .. 'day:' .. ARGV[5] .. ':' .. ARGV[4]
for what, total in pairs(cjson.decode(ARGV[7])) do
  if tonumber(redis.call('HGET', sums, what) or 0) < total then
    redis.call('HSET', sums, what, string.format('%.0f', total))
  end
end
for what, amount in pairs(cjson.decode(ARGV[6])) do
  redis.call('HINCRBY', sums, what, string.format('%.0f', amount))
end
redis.call('EXPIRE', sums, DAY_LIFE_S)
return redis.call('HGETALL', sums)
"""
)

HOLDING = (
    _HEAD
    + """
bury()
local counts = {}
for _, gate in ipairs(cjson.decode(ARGV[4])) do
  counts[#counts + 1] = redis.call('SCARD', P .. 'hold:' .. gate)
end
return counts
"""
)

TELL = _HEAD + "tell(ARGV[4]) return 1"

_NOTES = (
    _HEAD
    + """
local shelf, life = ARGV[4], tonumber(ARGV[5])
local values, marks, written = P .. 'notes:value', P .. 'notes:marks', P .. 'notes:written'
local function marked(of, mark) return P .. 'notes:marked:' .. of .. ':' .. mark end
"""
)

KEEP_NOTE = (
    _NOTES
    + """
local most, key, value, its_marks = tonumber(ARGV[6]), ARGV[7], ARGV[8], ARGV[9]
local place = shelf .. '\\n' .. key
local function forget(old)
  local there = redis.call('HGET', marks, old)
  for _, mark in ipairs(there and cjson.decode(there) or {}) do
    redis.call('SREM', marked(owner_of(old, '\\n'), mark), old)
  end
  redis.call('HDEL', marks, old)
  redis.call('HDEL', values, old)
  redis.call('ZREM', written, old)
end
redis.call('ZADD', written, now, place)  -- first: who is out of memory says so before anything is removed
forget(place)
redis.call('ZADD', written, now, place)
redis.call('HSET', values, place, value)
redis.call('HSET', marks, place, its_marks)
for _, mark in ipairs(cjson.decode(its_marks)) do
  redis.call('SADD', marked(shelf, mark), place)
  redis.call('EXPIRE', marked(shelf, mark), life)
end
for _, old in ipairs(redis.call('ZRANGEBYSCORE', written, '-inf', '(' .. (now - life))) do forget(old) end
for _, old in ipairs(redis.call('ZRANGE', written, 0, -most - 1)) do forget(old) end
for _, name in ipairs({values, marks, written}) do redis.call('EXPIRE', name, life) end
return 1
"""
)

_FRESH = """
local function fresh(place)
  local when = redis.call('ZSCORE', written, place)
  return when and tonumber(when) >= now - life and tonumber(when)
end
"""

FIND_NOTE = (
    _NOTES
    + _FRESH
    + """
local place = shelf .. '\\n' .. ARGV[6]
return fresh(place) and redis.call('HGET', values, place)
"""
)

NEAREST_NOTE = (
    _NOTES
    + _FRESH
    + """
local count, best, latest = {}, false, 0
for _, mark in ipairs(cjson.decode(ARGV[6])) do
  for _, place in ipairs(redis.call('SMEMBERS', marked(shelf, mark))) do
    count[place] = (count[place] or 0) + 1
  end
end
for place, common in pairs(count) do
  local when = fresh(place)
  if when and (not best or common > count[best] or (common == count[best] and when > latest)) then
    best, latest = place, when
  end
end
return best and {string.sub(best, #shelf + 2), redis.call('HGET', values, best)}
"""
)

SCRIPTS = {
    "JOIN": JOIN,
    "BEAT": BEAT,
    "PUT": PUT,
    "FIND": FIND,
    "REMOVE": REMOVE,
    "TURNS": TURNS,
    "WAITING": WAITING,
    "HOLDING": HOLDING,
    "CROWD": CROWD,
    "TAKE": TAKE,
    "COUNT": COUNT,
    "TELL": TELL,
    "KEEP_NOTE": KEEP_NOTE,
    "FIND_NOTE": FIND_NOTE,
    "NEAREST_NOTE": NEAREST_NOTE,
}
