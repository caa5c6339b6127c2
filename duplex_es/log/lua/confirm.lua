-- Forgets every token but the present one: the new socket has its activation.
-- KEYS  head
-- ARGV  incarnation generation
-- REPLY 1
-- ERRORS UNKNOWN FENCED
-- FLAGS allow-oom
local head = KEYS[1]
local incarnation, generation = ARGV[1], ARGV[2]

local refused = refusal(head, incarnation, 'generation', generation)
if refused then return refused end
redis.call('HDEL', head, 'recovery', 'unconfirmed')
return 1
