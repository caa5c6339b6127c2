-- What scripts share about resume tokens; comes after the heads.
-- KEYS  none
-- ARGV  none
-- REPLY none
-- ERRORS none

-- Several tokens of a row that nobody confirmed; more than these are forgotten.
local MOST_UNCONFIRMED_BYTES = 256

local function listed(digest)
  return #digest .. ':' .. digest
end

-- Where in `unconfirmed`, a list of digests, what follows `digest` begins; nothing when it is not there.
local function after_digest(unconfirmed, digest)
  local _, last = string.find(unconfirmed, listed(digest), 1, true)
  return last and last + 1
end

-- Makes `following` the token of a session that `presented` has just taken. `recovery` is the digest presented last, and
-- `unconfirmed` lists those given out between it and the present token, oldest first. Any of them may be the newest one
-- that the client has: another socket of its, long given up, may take the session with an older one in the meantime.
local function rotate_token(head, presented, following)
  local h = redis.call('HMGET', head, 'token', 'recovery', 'unconfirmed')
  local list = h[3] or ''
  local from = presented ~= h[1] and (presented == h[2] and 1 or after_digest(list, presented))
  list = from and string.sub(list, from) .. listed(h[1]) or ''
  if #list > MOST_UNCONFIRMED_BYTES then list = listed(h[1]) end
  redis.call('HSET', head, 'token', following, 'recovery', presented, 'unconfirmed', list)
end
