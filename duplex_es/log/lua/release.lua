-- Gives a claim back and queues the session for another worker at once; a repeat changes nothing.
-- KEYS  head ready
-- ARGV  incarnation fence member announcement
-- REPLY 1
-- ERRORS UNKNOWN FENCED
-- FLAGS allow-oom
local head, ready = KEYS[1], KEYS[2]
local incarnation, fence, member, announcement = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local refused = refusal(head, incarnation, 'fence', fence)
if refused then return refused end
if redis.call('HGET', head, 'state') == 'waiting' then return 1 end
redis.call('HSET', head, 'state', 'waiting', 'worker', '')
redis.call('ZADD', ready, now_ms(), member)
redis.call('PUBLISH', 'dx:ready', announcement)
return 1
