-- Takes a session over: compares and rotates the token, raises the generation, records and announces it.
-- KEYS  head in in_audio out snap
-- ARGV  incarnation presented next gateway record lease_ms publish after_seq
--       after_seq is empty when the caller does not read on after a frame
-- REPLY {generation, head fields}
-- ERRORS UNKNOWN INCARNATION TOKEN GONE AHEAD
local head, input, input_audio, output, snap = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local incarnation, presented, next_token, gateway, record = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local lease_ms, publish, after_seq = tonumber(ARGV[6]), ARGV[7], tonumber(ARGV[8])

local h = redis.call('HMGET', head, 'incarnation', 'state', 'token', 'recovery', 'attached_until', 'generation',
  'gateway', 'claims', 'acknowledged', 'silenced', 'doubt_seq', 'run', 'created_ms', 'unconfirmed')
if not h[1] then return redis.error_reply('UNKNOWN session') end
if h[1] ~= incarnation then return redis.error_reply('INCARNATION ' .. h[1]) end
if h[2] == 'closed' then return redis.error_reply('UNKNOWN closed') end
if h[3] == next_token and h[4] == presented and h[7] == gateway then
  -- The same call again, after its answer was lost.
  return {tonumber(h[6]), head_of(head, input, output, snap)}
end
local now = now_ms()
-- The token presented last time counts once more, but only for a session that nobody holds: of two racing calls the
-- first one attaches, so the second one is refused. Whoever has one that was given out since is ahead of it.
local recovers = presented == h[4] and tonumber(h[5]) <= now or after_digest(h[14] or '', presented)
if presented ~= h[3] and not recovers then return redis.error_reply('TOKEN refused') end
if after_seq then
  local last, first = seqs_of(output, h[8])
  first = math.max(first, tonumber(h[9]) + 1, tonumber(h[10] or 0) + 1)
  if after_seq + 1 < first then return redis.error_reply('GONE ' .. first) end
  -- What such a client was shown may have been lost, and numbered again since.
  if h[11] and after_seq > tonumber(h[11]) then return redis.error_reply('GONE ' .. (tonumber(h[11]) + 1)) end
  -- A claimed session has an output stream; one whose key is gone had all that the client says it has.
  if after_seq > 0 and h[8] ~= '' and not ends_of(output) then return redis.error_reply('GONE ' .. (after_seq + 1)) end
  if after_seq > last then return redis.error_reply('AHEAD ' .. last) end
end

local generation = number_after(h[6], h[12], store_run(), h[13])
local id = generation .. '-0'
redis.call('HSET', head, 'generation', generation, 'attached_until', now + lease_ms, 'gateway', gateway)
rotate_token(head, presented, next_token)
redis.call('XADD', input, id, 'm', record)
fence_off(input_audio, id)
announce_record(publish, input, id, record)
redis.call(publish, output, 'a ' .. generation .. '\n')
return {generation, head_of(head, input, output, snap)}
