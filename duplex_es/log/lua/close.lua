-- Ends a session for good: fences every writer off, leaves the queues, starts the retention time; a repeat changes nothing.
-- KEYS  head in in_audio out out_audio snap ready sessions
-- ARGV  incarnation fence reason retention_s member publish
-- REPLY 1
-- ERRORS UNKNOWN FENCED
-- FLAGS allow-oom
local head, input, input_audio, output, output_audio = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local snap, ready, sessions = KEYS[6], KEYS[7], KEYS[8]
local incarnation, fence, reason, retention_s = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local member, publish = ARGV[5], ARGV[6]

local h = redis.call('HMGET', head, 'incarnation', 'state', 'fence', 'generation', 'claims')
if h[1] == incarnation and h[2] == 'closed' and h[3] == fence then return 1 end
local refused = refusal(head, incarnation, 'fence', fence)
if refused then return refused end

redis.call('HSET', head, 'state', 'closed', 'reason', reason, 'attached_until', 0,
  'closed_input', last_input_of(input), 'closed_seq', (seqs_of(output, h[5])))
local attachment_over, claim_over = (tonumber(h[4]) + 1) .. '-0', (tonumber(h[3]) + 1) .. '-0'
fence_off(input, attachment_over)
fence_off(input_audio, attachment_over)
fence_off(output, claim_over)
fence_off(output_audio, claim_over)
redis.call('ZREM', ready, member)
redis.call('ZADD', sessions, now_ms() + retention_s * 1000, member)
for _, key in ipairs({head, input, input_audio, output, output_audio, snap}) do
  redis.call('PEXPIRE', key, math.floor(retention_s * 1000))
end
redis.call(publish, output, 'z \n' .. reason)
redis.call(publish, input, 'z \n' .. reason)
return 1
