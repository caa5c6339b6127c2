-- Ends a session for good: fences every writer off, leaves the queues, starts the retention time; a repeat changes nothing.
-- KEYS  head in in_audio out out_audio snap ready sessions
-- ARGV  incarnation fence known reason retention_s member publish
--       known is the last seq that landed, as far as its writer knows: of a log that has lost it nothing is ended
-- REPLY 1
-- ERRORS UNKNOWN FENCED LOST
-- FLAGS allow-oom
local head = KEYS[1]
local incarnation, fence, known, reason, retention_s = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local member, publish = ARGV[6], ARGV[7]

local h = redis.call('HMGET', head, 'incarnation', 'state', 'fence')
if h[1] == incarnation and h[2] == 'closed' and h[3] == fence then return 1 end
local refused = refusal(head, incarnation, 'fence', fence)
if refused then return refused end
local lost = lost_after(head, KEYS[4], known)
if lost then return lost end
end_session(KEYS, reason, retention_s, member, publish)
return 1
