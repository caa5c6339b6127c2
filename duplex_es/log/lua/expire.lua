-- Closes a session that nobody claimed for a while, while nothing was attached; else changes nothing.
-- KEYS  head in in_audio out out_audio snap ready sessions
-- ARGV  incarnation older_ms reason retention_s member publish
-- REPLY 1 when this call closed it, else 0
-- ERRORS none
-- FLAGS allow-oom
local head, ready = KEYS[1], KEYS[7]
local incarnation, older_ms, reason, retention_s = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local member, publish = ARGV[5], ARGV[6]

local h = redis.call('HMGET', head, 'incarnation', 'state', 'attached_until', 'left_ms')
if h[1] ~= incarnation or h[2] == 'closed' then return 0 end
-- Its place in the queue says since when it may be claimed, whether it waits or a lease ran out.
local unclaimed_from = redis.call('ZSCORE', ready, member)
local unattached_from = h[3] == '0' and h[4] or h[3]
local before = now_ms() - older_ms
if not unclaimed_from or tonumber(unclaimed_from) > before then return 0 end
if tonumber(unattached_from or 0) > before then return 0 end
-- While the store was away nobody could renew anything: that time does not count.
local _, up_s = store_run()
if up_s * 1000 < older_ms then return 0 end
end_session(KEYS, reason, retention_s, member, publish)
return 1
