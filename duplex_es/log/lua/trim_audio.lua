-- Drops stored audio below two positions, exactly; records stay.
-- KEYS  head in_audio out_audio
-- ARGV  incarnation fence input_before output_before
-- REPLY how many pieces of audio were dropped
-- ERRORS UNKNOWN FENCED
-- FLAGS allow-oom
local head, input_audio, output_audio = KEYS[1], KEYS[2], KEYS[3]
local incarnation, fence, input_before, output_before = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local refused = refusal(head, incarnation, 'fence', fence)
if refused then return refused end
-- Exact: with '~' Redis would drop whole nodes only, and what is left would not be what was asked for.
local dropped = redis.call('XTRIM', input_audio, 'MINID', '=', input_before)
if output_before > 0 then
  local first_kept = claim_of(redis.call('HGET', head, 'claims'), output_before) .. '-' .. output_before
  local silenced = id_below(output_audio, first_kept)
  -- A client that has not heard this yet cannot be given the same frames any more.
  if silenced then redis.call('HSET', head, 'silenced', (string.match(silenced, '-(%d+)'))) end
  dropped = dropped + redis.call('XTRIM', output_audio, 'MINID', '=', first_kept)
end
return dropped
