-- Keeps a snapshot and the one before it; a lower seq than the newest one's changes nothing.
-- KEYS  head snap
-- ARGV  incarnation fence seq snapshot
-- REPLY the seq of the newest snapshot
-- ERRORS UNKNOWN FENCED
local head, snap = KEYS[1], KEYS[2]
local incarnation, fence, seq, snapshot = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]

local refused = refusal(head, incarnation, 'fence', fence)
if refused then return refused end
local newest = tonumber(redis.call('HGET', snap, 'snapshot_seq') or -1)
if seq < newest then return newest end
if newest >= 0 and seq > newest then
  redis.call('HSET', snap, 'older_seq', newest, 'older', redis.call('HGET', snap, 'snapshot'))
end
redis.call('HSET', snap, 'snapshot_seq', seq, 'snapshot', snapshot)
return seq
