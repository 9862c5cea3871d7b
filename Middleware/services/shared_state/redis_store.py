"""What servers on several machines share: a Redis server. Knows `redis`; nobody else does.

Each call is one script, run as one step; those that wait at the same time are sent together. Messages come by
a stream that is read as soon as something is in it, and loses nothing while it reconnects. Extra: `redis`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from Middleware.services.shared_state.call_batches import BatchedCall, CallBatches
from Middleware.services.shared_state.store import (
    LEASE_S,
    MOST_NOTES,
    NOTE_LIFE_S,
    Forgotten,
    Note,
    Places,
    StoreLost,
)
from Middleware.services.shared_state.turns import ROW

# --------------------------------------------------------------------------
# What the Redis store asks of the server, each a Lua script: one call is one step, never seen half done.


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

_ROWS = (
    f"""
local ROW = {ROW}
"""
    + """
-- The rule of turns.py. left: places in order of arrival; asks: place -> {machine, model}; rows: machine ->
-- {model, turns}.
local function grow_row(row, model)
  if row and row[1] == model then return {model, row[2] + 1} end
  return {model, 1}
end
local function next_model(left, asks, machine, row)
  local first, other, again = nil, nil, false
  for _, place in ipairs(left) do
    local ask = asks[place]
    if ask and ask[1] == machine then
      first = first or ask[2]
      if row and ask[2] == row[1] then again = true else other = other or ask[2] end
    end
  end
  if not row then return first end
  if not other or (again and row[2] < ROW) then return row[1] end
  return other
end
local function next_place(left, asks, rows, under_way)
  local busy = {}
  for i, place in ipairs(left) do
    local ask = asks[place]
    if not ask then return i end
    if not busy[ask[1]] then
      local model = next_model(left, asks, ask[1], rows[ask[1]])
      if (under_way[ask[1]] or model) == model then
        for k, one in ipairs(left) do
          if asks[one] and asks[one][1] == ask[1] and asks[one][2] == model then return k end
        end
      end
      busy[ask[1]] = true
    end
  end
  return nil
end
local function turns_in_rows(left, room, asks, rows, under_way, one_model)
  local all, turns = {}, {}
  for machine, row in pairs(rows) do all[machine] = row end
  while #turns < room do
    local i = next_place(left, asks, all, under_way)
    if not i then break end
    local place = table.remove(left, i)
    turns[#turns + 1] = place
    local ask = asks[place]
    if ask then
      all[ask[1]] = grow_row(all[ask[1]], ask[2])
      if one_model then under_way[ask[1]] = ask[2] end
    end
  end
  return turns
end
"""
)

TURNS = (
    _KNOWN
    + _ROWS
    + """
local gate, limit, places, one_model = ARGV[4], tonumber(ARGV[5]), cjson.decode(ARGV[6]), ARGV[7] == '1'
local hold, wait, behind = P .. 'hold:' .. gate, P .. 'wait:' .. gate, P .. 'behind:' .. gate
local asks_key, rows_key = P .. 'asks:' .. gate, P .. 'rows:' .. gate
local leaves = false
bury()
for _, ticket in ipairs(places.leave) do
  local place = owner .. ' ' .. ticket
  redis.call('SREM', hold, place)
  redis.call('ZREM', wait, place)
  redis.call('ZREM', behind, place)
  redis.call('HDEL', asks_key, place)
  leaves = true
end
for ticket, ask in pairs(places.asks) do
  redis.call('HSET', asks_key, owner .. ' ' .. ticket, cjson.encode(ask))
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
local asks, rows, any = {}, {}, false
local found = redis.call('HGETALL', asks_key)
for i = 1, #found, 2 do
  asks[found[i]] = cjson.decode(found[i + 1])
  any = true
end
if any then
  found = redis.call('HGETALL', rows_key)
  for i = 1, #found, 2 do rows[found[i]] = cjson.decode(found[i + 1]) end
end
local function under_way()
  local models = {}
  for _, place in ipairs(redis.call('SMEMBERS', hold)) do
    if asks[place] then models[asks[place][1]] = asks[place][2] end
  end
  return models
end
local held = redis.call('SCARD', hold)
local queue, room, turns = wait, limit - held, {}
if redis.call('ZCARD', wait) == 0 and held == 0 then
  queue, room = behind, math.min(room, 1)
end
if room > 0 then
  if any then
    turns = turns_in_rows(redis.call('ZRANGE', queue, 0, -1), room, asks, rows,
      one_model and under_way() or {}, one_model)
  else
    turns = redis.call('ZRANGE', queue, 0, room - 1)
  end
end
local mine, others = {}, false
for _, place in ipairs(turns) do
  if owner_of(place, ' ') == owner then
    redis.call('ZREM', queue, place)
    redis.call('SADD', hold, place)
    mine[#mine + 1] = string.sub(place, #owner + 2)
    local ask = asks[place]
    if ask then
      rows[ask[1]] = grow_row(rows[ask[1]], ask[2])
      redis.call('HSET', rows_key, ask[1], cjson.encode(rows[ask[1]]))
      redis.call('EXPIRE', rows_key, 86400)
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
  if ask then
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
if ARGV[5] == '' then return redis.call('ZCARD', wait) end
return redis.call('ZRANK', wait, owner .. ' ' .. ARGV[5]) or 0
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
    "TELL": TELL,
    "KEEP_NOTE": KEEP_NOTE,
    "FIND_NOTE": FIND_NOTE,
    "NEAREST_NOTE": NEAREST_NOTE,
}


# --------------------------------------------------------------------------

PREFIX = "headrace:"
ANSWER_S = 1.0
"""A server that takes longer to answer is as good as gone."""
MOST_WAIT_S = 2.0
"""`heard` waits no longer, so that a server that is gone is noticed."""


class RedisStore:
    """The view of one owner. `url`: `redis://`, `rediss://` or `unix://`, as redis-py reads it.

    Connects on first use. Each time it joins it takes another name: what it asked for before, and the network
    held back, comes from somebody who is not known any more. Raises ImportError without `redis`, ValueError
    for an URL that is none.
    """

    shared, many_machines = True, True

    def __init__(self, url: str, owner: str, prefix: str = PREFIX) -> None:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        self._owner, self._name, self._prefix, self.place = owner, owner, prefix, place_of(url)
        self._lives = 0
        self._errors = (redis.RedisError, OSError)
        self._no_script = redis.exceptions.NoScriptError
        never = Retry(NoBackoff(), 0)  # who cannot be reached is asked again by the heartbeat
        # With protocol 3 XREAD answers with a map, with 2 with a list of pairs, which each Redis knows.
        how: dict[str, Any] = {"retry": never, "decode_responses": True, "protocol": 2}
        how["socket_connect_timeout"] = ANSWER_S
        # A listener of its own: XREAD holds its connection for as long as it waits (Redis, "XREAD", BLOCK).
        self._redis = redis.Redis.from_url(url, socket_timeout=ANSWER_S, **how)
        self._listener = redis.Redis.from_url(url, socket_timeout=MOST_WAIT_S + ANSWER_S, **how)
        self._digests = {name: hashlib.sha1(text.encode()).hexdigest() for name, text in SCRIPTS.items()}
        self._knows_scripts = False
        self._calls = CallBatches(self._send)
        self._read = "0"
        """Id of the last message that was heard."""

    def join(self) -> None:
        before, self._lives = self._owner, self._lives + 1
        owner = f"{self._name}.{self._lives}"
        self._run_as(owner, "JOIN", before)
        self._owner, self._read = owner, "0"

    def beat(self) -> bool:
        return bool(self._run("BEAT"))

    def put(self, kind: str, key: str, value: str) -> str | None:
        return _value(self._run("PUT", kind, key, value, "0"))

    def add(self, kind: str, key: str, value: str) -> bool:
        return self._run("PUT", kind, key, value, "1") in (None, f"{self._owner}\n{value}")

    def find(self, kind: str, key: str) -> str | None:
        return _value(self._run("FIND", kind, key))

    def remove(self, kind: str, key: str, value: str) -> None:
        self._calls.post("REMOVE", self._words(self._owner, kind, key, value))

    def turns(
        self,
        gate: str,
        limit: int,
        places: Places,
        one_model: bool = False,
        when_queued: Callable[[], object] | None = None,
    ) -> list[str]:
        told = json.dumps({**places._asdict(), "asks": dict(places.asks)})
        words = self._words(self._owner, gate, limit, told, "1" if one_model else "0")
        return [str(one) for one in self._ask_server(lambda: self._calls.ask("TURNS", words, when_queued))]

    def waiting(self, gate: str, before: str = "") -> int:
        return int(self._run("WAITING", gate, before))

    def holding(self, gates: Sequence[str]) -> list[int]:
        return [int(count) for count in self._run("HOLDING", json.dumps(list(gates)))]

    def keep_note(self, shelf: str, note: Note) -> None:
        marks = json.dumps(list(note.marks))
        self._run("KEEP_NOTE", shelf, int(NOTE_LIFE_S), MOST_NOTES, note.key, note.value, marks)

    def find_note(self, shelf: str, key: str) -> str | None:
        found: str | None = self._run("FIND_NOTE", shelf, int(NOTE_LIFE_S), key)
        return found

    def nearest_note(self, shelf: str, marks: Sequence[str]) -> tuple[str, str] | None:
        found = self._run("NEAREST_NOTE", shelf, int(NOTE_LIFE_S), json.dumps(list(marks)))
        return (found[0], found[1]) if found else None

    def tell(self, message: str) -> None:
        self._run("TELL", message)

    def receive(self, wait_s: float) -> list[str]:
        stream = f"{self._prefix}messages"
        block = max(1, int(min(wait_s, MOST_WAIT_S) * 1000)) if wait_s else None
        found = self._ask_server(lambda: self._listener.xread({stream: self._read}, block=block))
        entries = [entry for _, batch in found for entry in batch]
        if entries:
            self._read = entries[-1][0]
        return [fields["m"] for _, fields in entries]

    def close(self) -> None:
        """Let the connections go. Another call makes new ones."""
        self._redis.close()
        self._listener.close()

    def _run(self, name: str, *words: Any) -> Any:
        return self._run_as(self._owner, name, *words)

    def _run_as(self, owner: str, name: str, *words: Any) -> Any:
        return self._ask_server(lambda: self._calls.ask(name, self._words(owner, *words)))

    def _words(self, owner: str, *words: Any) -> tuple[Any, ...]:
        return (self._prefix, owner, LEASE_S, *words)

    def _send(self, calls: Sequence[BatchedCall]) -> list[Any]:
        """Ask all in one exchange, the first one with the texts of the scripts. A server that has lost them
        since is sent a text where it does not know the script.
        """
        with self._redis.pipeline(transaction=False) as line:
            texts = () if self._knows_scripts else tuple(SCRIPTS.values())
            for text in texts:
                line.script_load(text)
            for call in calls:
                line.evalsha(self._digests[call.name], 0, *call.words)
            answers: list[Any] = line.execute(raise_on_error=False)[len(texts) :]
            unknown = [i for i, answer in enumerate(answers) if isinstance(answer, self._no_script)]
            for i in unknown:
                line.eval(SCRIPTS[calls[i].name], 0, *calls[i].words)
            for i, answer in zip(unknown, line.execute(raise_on_error=False) if unknown else (), strict=True):
                answers[i] = answer
        self._knows_scripts = not unknown
        return answers

    def _ask_server(self, ask: Callable[[], Any]) -> Any:
        """What the server answers. Raises StoreLost."""
        try:
            return ask()
        except self._errors as error:
            kind = Forgotten if "FORGOTTEN" in str(error) else StoreLost
            raise kind(f"Redis at {self.place}: {error}") from error


def place_of(url: str) -> str:
    """Where the server is, without name and password. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return parts.path
    return f"{parts.hostname or 'localhost'}:{parts.port or 6379}"


def _value(found: str | None) -> str | None:
    return None if found is None else found.partition("\n")[2]
