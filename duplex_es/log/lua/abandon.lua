-- Ends the lease of a claim whose worker is gone, so that another may claim the session at once; else changes nothing.
-- KEYS  head ready
-- ARGV  incarnation worker member announcement
-- REPLY 1 when the session waits now, 0 when this worker does not hold it
-- ERRORS none
-- FLAGS allow-oom
local head, ready = KEYS[1], KEYS[2]
local incarnation, worker, member, announcement = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local h = redis.call('HMGET', head, 'incarnation', 'state', 'worker')
if h[1] ~= incarnation or h[2] ~= 'claimed' or h[3] ~= worker then return 0 end
redis.call('ZADD', ready, 'XX', 'LT', now_ms(), member)
redis.call('PUBLISH', 'dx:ready', announcement)
return 1
