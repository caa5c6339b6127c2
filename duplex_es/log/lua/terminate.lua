-- Ends an open session whoever holds it, as its owner's closing would; a repeat changes nothing.
-- KEYS  head in in_audio out out_audio snap ready sessions
-- ARGV  incarnation reason retention_s member publish
-- REPLY 1
-- ERRORS UNKNOWN
-- FLAGS allow-oom
local head = KEYS[1]
local incarnation, reason, retention_s, member, publish = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]

local h = redis.call('HMGET', head, 'incarnation', 'state')
if h[1] ~= incarnation then return redis.error_reply('UNKNOWN session') end
if h[2] == 'closed' then return 1 end
end_session(KEYS, reason, retention_s, member, publish)
return 1
