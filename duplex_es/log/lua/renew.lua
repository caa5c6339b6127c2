-- Extends the leases of one partition and says where each session stands, so that lost notifications are noticed.
-- KEYS  head stream ready, repeated; `stream` is what the holder follows; `ready` counts for claims only
-- ARGV  lease_ms, then kind incarnation number member passed, repeated; kind is 'a' (attachment) or 'c' (claim)
--       passed is the newest fence whose entries the reader of an attachment has passed, 0 for a claim
-- REPLY for each: {1 held or 0 lost, state, generation, fence, last position, 1 when opened}
-- ERRORS none
-- FLAGS allow-oom
local lease_ms = tonumber(ARGV[1])

local until_ms = now_ms() + lease_ms
local replies = {}
for n = 1, #KEYS / 3 do
  local head, stream, ready = KEYS[3 * n - 2], KEYS[3 * n - 1], KEYS[3 * n]
  local kind, incarnation, number, member, passed = unpack(ARGV, 5 * n - 3, 5 * n + 1)
  local h = redis.call('HMGET', head, 'incarnation', 'state', 'generation', 'fence', 'attached_until', 'claims',
    'closed_input', 'closed_seq', 'doubt_fence')
  if h[1] ~= incarnation then
    replies[n] = {0, 'gone', 0, 0, '', 0}
  else
    local held, last = 0, ''
    if kind == 'a' then
      last = seqs_of(stream, h[6], tonumber(h[8]))
      if h[3] == number and h[5] ~= '0' then
        held = 1
        redis.call('HSET', head, 'attached_until', until_ms)
        forget_doubt(head, h[9], passed)
      end
    else
      last = last_input_of(stream, h[7])
      if h[4] == number and h[2] == 'claimed' then
        held = 1
        redis.call('ZADD', ready, until_ms, member)
      end
    end
    replies[n] = {held, h[2], tonumber(h[3]), tonumber(h[4]), last, redis.call('HEXISTS', head, 'opening')}
  end
end
return replies
