-- Says where a session's streams end and from which id to read the output after a seq.
-- KEYS  head in out snap
-- ARGV  incarnation after_seq
-- REPLY {state, generation, fence, last input id, last seq, first seq, id to read after, reason, opening, claim,
--        gateway, worker}
--       claim is the one that wrote after_seq, 0 when that is not known;
--       state is 'past' for an older incarnation whose streams are left, 'gone' when there are none
-- ERRORS none
-- FLAGS no-writes
local head, input, output, snap = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local incarnation, after_seq = ARGV[1], tonumber(ARGV[2])

local h = redis.call('HMGET', head, 'incarnation', 'state', 'generation', 'fence', 'claims', 'closed_input',
  'closed_seq', 'reason', 'opening', 'gateway', 'worker')
if redis.call('EXISTS', input, output) < 2 then
  return {'gone', 0, 0, '0-0', 0, 1, '0-0', '', false, 0, '', ''}
end
local claims, closed_seq = h[5], h[7]
if h[1] ~= incarnation then
  h = redis.call('HMGET', snap, 'claims', 'closed_seq')
  claims, closed_seq = h[1] or '', h[2]
end
local last, first = seqs_of(output, claims, tonumber(closed_seq))
-- The entry after `after_seq` was or will be written under this claim, so everything wanted has an id above this one.
local start = claim_of(claims, after_seq + 1) .. '-' .. after_seq
if not h[3] then
  return {'past', 0, 0, last_input_of(input), last, first, start, '', false, 0, '', ''}
end
return {h[2], tonumber(h[3]), tonumber(h[4]), last_input_of(input, h[6]), last, first, start, h[8] or '', h[9],
  claim_of(claims, after_seq), h[10], h[11]}
