-- Records that the attachment ended and marks the session unattached; a superseded attachment changes nothing.
-- KEYS  head in
-- ARGV  incarnation generation record publish
-- REPLY 1 if this call did it, 0 if there was nothing to do
-- ERRORS UNKNOWN
-- FLAGS allow-oom
local head, input = KEYS[1], KEYS[2]
local incarnation, generation, record, publish = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local h = redis.call('HMGET', head, 'incarnation', 'state', 'generation', 'attached_until')
if h[1] ~= incarnation or h[2] == 'closed' then return redis.error_reply('UNKNOWN session') end
-- A lease that merely ran out still gets its record; 0 means that it was written.
if h[3] ~= generation or h[4] == '0' then return 0 end
local _, number = ends_of(input)
local id = generation .. '-' .. (number + 1)
redis.call('XADD', input, id, 'm', record)
redis.call('HSET', head, 'attached_until', 0)
announce_record(publish, input, id, record)
return 1
