-- Keeps a checkpoint and the one before it; with an opening answer also publishes that.
-- KEYS  head out snap
-- ARGV  incarnation fence checkpoint opens opening publish
-- REPLY 1
-- ERRORS UNKNOWN FENCED
local head, output, snap = KEYS[1], KEYS[2], KEYS[3]
local incarnation, fence, checkpoint, opens, opening, publish = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local refused = refusal(head, incarnation, 'fence', fence)
if refused then return refused end
local current = redis.call('HGET', snap, 'current')
if current and current ~= checkpoint then redis.call('HSET', snap, 'previous', current) end
redis.call('HSET', snap, 'current', checkpoint)
if opens == '1' then
  redis.call('HSET', head, 'opening', opening)
  redis.call(publish, output, 'o \n' .. opening)
end
return 1
