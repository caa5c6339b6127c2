-- Says where a session stands, in one atomic step.
-- KEYS  head in out snap
-- ARGV  incarnation
-- REPLY head fields, or nothing when the head is gone or of another incarnation
-- ERRORS none
-- FLAGS no-writes
local head, input, output, snap = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local incarnation = ARGV[1]

if redis.call('HGET', head, 'incarnation') ~= incarnation then return false end
return head_of(head, input, output, snap)
