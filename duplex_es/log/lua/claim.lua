-- Claims one waiting session: raises the fence, records it in the output, and starts the lease.
-- KEYS  head in out out_audio snap ready
-- ARGV  incarnation member worker record nonce lease_ms publish
-- REPLY {fence, head fields}, or nothing when somebody else holds it or it is gone
-- ERRORS none
local head, input, output, output_audio, snap, ready = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local incarnation, member, worker, record, nonce = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local lease_ms, publish = tonumber(ARGV[6]), ARGV[7]

local h = redis.call('HMGET', head, 'incarnation', 'state', 'fence', 'claims', 'nonce', 'run', 'created_ms',
  'doubt_seq')
if h[1] ~= incarnation or h[2] == 'closed' then
  redis.call('ZREM', ready, member)
  return false
end
if h[5] == nonce then
  -- The same call again, after its answer was lost.
  return {tonumber(h[3]), head_of(head, input, output, snap)}
end
local now = now_ms()
local from = redis.call('ZSCORE', ready, member)
if not from or tonumber(from) > now then return false end

local run = store_run()
local fence = number_after(h[3], h[6], run, h[7])
local id = fence .. '-0'
local last = seqs_of(output, h[4])
if h[6] and h[6] ~= run then
  -- The store was started anew: frames above this one may be lost, and this worker will use their seqs again.
  redis.call('HSET', head, 'doubt_seq', math.min(last, tonumber(h[8] or last)), 'doubt_fence', fence)
end
-- A claim that wrote nothing leaves no trace in the list: the next one starts at the same seq.
local first = last + 1
local claims = string.gsub(h[4], '%d+:' .. first .. ';', '') .. fence .. ':' .. first .. ';'
redis.call('XADD', output, id, 'm', record)
fence_off(output_audio, id)
redis.call('HSET', head, 'state', 'claimed', 'fence', fence, 'worker', worker, 'claims', claims, 'nonce', nonce,
  'run', run)
redis.call('ZADD', ready, now + lease_ms, member)
announce_record(publish, output, id, record)
return {fence, head_of(head, input, output, snap)}
