-- Raises the seq that the client confirmed; a lower one changes nothing.
-- KEYS  head
-- ARGV  incarnation generation seq
-- REPLY the acknowledged seq
-- ERRORS UNKNOWN FENCED
-- FLAGS allow-oom
local head = KEYS[1]
local incarnation, generation, seq = ARGV[1], ARGV[2], tonumber(ARGV[3])

local refused = refusal(head, incarnation, 'generation', generation)
if refused then return refused end
local acknowledged = tonumber(redis.call('HGET', head, 'acknowledged'))
if seq <= acknowledged then return acknowledged end
redis.call('HSET', head, 'acknowledged', seq)
return seq
