-- Ends a session for good: fences every writer off, leaves the queues, starts the retention time; a repeat changes nothing.
-- KEYS  head in in_audio out out_audio snap ready sessions
-- ARGV  incarnation fence reason retention_s member publish
-- REPLY 1
-- ERRORS UNKNOWN FENCED
-- FLAGS allow-oom
local head = KEYS[1]
local incarnation, fence, reason, retention_s = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local member, publish = ARGV[5], ARGV[6]

local h = redis.call('HMGET', head, 'incarnation', 'state', 'fence')
if h[1] == incarnation and h[2] == 'closed' and h[3] == fence then return 1 end
local refused = refusal(head, incarnation, 'fence', fence)
if refused then return refused end
end_session(KEYS, reason, retention_s, member, publish)
return 1
