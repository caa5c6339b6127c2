-- Makes a session, attaches its creator as generation 1 and queues it for a worker; a repeat changes nothing.
-- KEYS  head in in_audio out out_audio snap ready sessions
-- ARGV  incarnation model token gateway record lease_ms member announcement
-- REPLY 1, the generation
-- ERRORS EXISTS
local head, input, input_audio, output, output_audio = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local snap, ready, sessions = KEYS[6], KEYS[7], KEYS[8]
local incarnation, model, token, gateway, record = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local lease_ms, member, announcement = tonumber(ARGV[6]), ARGV[7], ARGV[8]

local old = redis.call('HMGET', head, 'incarnation', 'state', 'generation', 'token', 'gateway')
local next_incarnation = 0
if old[1] then
  if old[2] ~= 'closed' then
    if old[1] == incarnation and old[3] == '1' and old[4] == token and old[5] == gateway then return 1 end
    return redis.error_reply('EXISTS open')
  end
  next_incarnation = tonumber(old[1]) + 1
end
if tonumber(incarnation) ~= next_incarnation then return redis.error_reply('EXISTS other incarnation') end

local now = now_ms()
redis.call('DEL', head, input, input_audio, output, output_audio, snap)
redis.call('HSET', head, 'incarnation', incarnation, 'model', model, 'state', 'waiting', 'generation', 1,
  'attached_until', now + lease_ms, 'gateway', gateway, 'fence', 0, 'worker', '', 'claims', '', 'acknowledged', 0,
  'token', token, 'created_ms', math.floor(now), 'run', (store_run()))
redis.call('XADD', input, '1-0', 'm', record)
fence_off(input_audio, '1-0')
-- Streams exist from the start, so that appends need not create them: a missing one means that the log was lost.
fence_off(output, '0-1')
fence_off(output_audio, '0-1')
redis.call('ZADD', ready, now, member)
redis.call('ZREMRANGEBYSCORE', sessions, '-inf', now)
redis.call('ZADD', sessions, '+inf', member)
redis.call('PUBLISH', 'dx:ready', announcement)
return 1
