-- Lets a closed session expire earlier than it would, never later.
-- KEYS  head in in_audio out out_audio snap sessions
-- ARGV  incarnation retention_ms member
-- REPLY 1
-- ERRORS UNKNOWN EXISTS
-- FLAGS allow-oom
local sessions = KEYS[7]
local incarnation, retention_ms, member = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local first, refused = closed_life(KEYS, incarnation)
if refused then return refused end
for n = first, 6 do
  local left = redis.call('PTTL', KEYS[n])
  if left == -1 or left > retention_ms then redis.call('PEXPIRE', KEYS[n], retention_ms) end
end
local until_ms = now_ms() + retention_ms
local listed = redis.call('ZSCORE', sessions, member)
if listed and tonumber(listed) > until_ms then redis.call('ZADD', sessions, until_ms, member) end
return 1
