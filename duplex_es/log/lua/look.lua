-- Says where a session's streams end and from which id to read the output after a seq.
-- KEYS  head in out
-- ARGV  incarnation after_seq
-- REPLY {state, generation, fence, last input id, last seq, first seq, id to read after, reason, opening, claim}
--       claim is the one that wrote after_seq, 0 when that is not known;
--       state is 'past' for an older incarnation whose streams are left, 'gone' when there are none
-- ERRORS none
-- FLAGS no-writes
local head, input, output = KEYS[1], KEYS[2], KEYS[3]
local incarnation, after_seq = ARGV[1], tonumber(ARGV[2])

local h = redis.call('HMGET', head, 'incarnation', 'state', 'generation', 'fence', 'claims', 'closed_input',
  'closed_seq', 'reason', 'opening')
if h[1] ~= incarnation then
  -- Its claims are forgotten: read from the start, and leave the rest to the reader.
  local state = redis.call('EXISTS', input, output) == 2 and 'past' or 'gone'
  local last, first = seqs_of(output, '')
  return {state, 0, 0, last_input_of(input), last, first, '0-0', '', false, 0}
end
if redis.call('EXISTS', input, output) < 2 then return {'gone', 0, 0, '0-0', 0, 1, '0-0', '', false, 0} end
local last, first = seqs_of(output, h[5], tonumber(h[7]))
-- The entry after `after_seq` was or will be written under this claim, so everything wanted has an id above this one.
local start = claim_of(h[5], after_seq + 1) .. '-' .. after_seq
return {h[2], tonumber(h[3]), tonumber(h[4]), last_input_of(input, h[6]), last, first, start, h[8] or '', h[9],
  claim_of(h[5], after_seq)}
