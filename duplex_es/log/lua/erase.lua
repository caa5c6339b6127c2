-- Drops all that is stored of a closed session.
-- KEYS  head in in_audio out out_audio snap sessions
-- ARGV  incarnation member
-- REPLY 1
-- ERRORS UNKNOWN EXISTS
-- FLAGS allow-oom
local sessions = KEYS[7]
local incarnation, member = ARGV[1], ARGV[2]

local first, refused = closed_life(KEYS, incarnation)
if refused then return refused end
for n = first, 6 do redis.call('DEL', KEYS[n]) end
redis.call('ZREM', sessions, member)
return 1
