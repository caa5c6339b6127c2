-- Gives a claim back and queues the session for another worker at once; a repeat changes nothing.
-- KEYS  head out ready
-- ARGV  incarnation fence known member announcement
--       known is the last seq that landed, as far as its writer knows: of a log that has lost it nothing is given back
-- REPLY 1
-- ERRORS UNKNOWN FENCED LOST
-- FLAGS allow-oom
local head, output, ready = KEYS[1], KEYS[2], KEYS[3]
local incarnation, fence, known, member, announcement = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]

local refused = refusal(head, incarnation, 'fence', fence)
if refused then return refused end
if redis.call('HGET', head, 'state') == 'waiting' then return 1 end
local lost = lost_after(head, output, known)
if lost then return lost end
redis.call('HSET', head, 'state', 'waiting', 'worker', '')
redis.call('ZADD', ready, now_ms(), member)
redis.call('PUBLISH', 'dx:ready', announcement)
return 1
