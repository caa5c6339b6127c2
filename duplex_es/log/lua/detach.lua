-- Records that the attachment ended and marks the session unattached; a superseded attachment changes nothing.
-- KEYS  head in
-- ARGV  incarnation generation known record publish passed
--       known is the last index that landed, as far as its writer knows: the record does not take its place
--       passed is the newest fence whose entries its reader has passed
-- REPLY 1 if this call did it, 0 if there was nothing to do
-- ERRORS UNKNOWN LOST
-- FLAGS allow-oom
local head, input = KEYS[1], KEYS[2]
local incarnation, generation, known = ARGV[1], ARGV[2], tonumber(ARGV[3])
local record, publish, passed = ARGV[4], ARGV[5], ARGV[6]

local h = redis.call('HMGET', head, 'incarnation', 'state', 'generation', 'attached_until', 'doubt_fence')
if h[1] ~= incarnation or h[2] == 'closed' then return redis.error_reply('UNKNOWN session') end
-- A lease that merely ran out still gets its record; 0 means that it was written.
if h[3] ~= generation or h[4] == '0' then return 0 end
local _, number = ends_of(input)
if number < known then return redis.error_reply('LOST ' .. number) end
local id = generation .. '-' .. (number + 1)
redis.call('XADD', input, id, 'm', record)
redis.call('HSET', head, 'attached_until', 0, 'left_ms', math.min(now_ms(), tonumber(h[4])))
forget_doubt(head, h[5], passed)
announce_record(publish, input, id, record)
return 1
