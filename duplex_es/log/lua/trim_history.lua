-- Drops records below two positions, exactly, with their audio, and forgets the claims that nothing is left of.
-- KEYS  head in in_audio out out_audio snap
-- ARGV  incarnation fence input_before output_before
-- REPLY how many records were dropped
-- ERRORS UNKNOWN FENCED
-- FLAGS allow-oom
local head, input, input_audio, output, output_audio = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local snap = KEYS[6]
local incarnation, fence, input_before, output_before = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local refused = refusal(head, incarnation, 'fence', fence)
if refused then return refused end
local trimmed = id_below(input, input_before)
-- Indexes restart with each attachment, so only this tells a reader that entries after its position are gone.
if trimmed then redis.call('HSET', snap, 'trimmed', trimmed) end
local dropped = redis.call('XTRIM', input, 'MINID', '=', input_before)
redis.call('XTRIM', input_audio, 'MINID', '=', input_before)
if output_before <= 0 then return dropped end

local claims, left = redis.call('HGET', head, 'claims'), ''
local claim = claim_of(claims, output_before)
local first_kept = claim .. '-' .. output_before
dropped = dropped + redis.call('XTRIM', output, 'MINID', '=', first_kept)
redis.call('XTRIM', output_audio, 'MINID', '=', first_kept)
for recorded, first in string.gmatch(claims, '(%d+):(%d+)') do
  if tonumber(recorded) >= claim then left = left .. recorded .. ':' .. first .. ';' end
end
if left ~= claims then redis.call('HSET', head, 'claims', left) end
return dropped
