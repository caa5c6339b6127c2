-- Raises a fence or generation again to the number whose own record the store lost, for the one who held it.
-- KEYS  head in in_audio out out_audio ready
-- ARGV  incarnation kind number holder token recovery record lease_ms member publish
--       kind is 'a' (attachment, held by a gateway) or 'c' (claim, held by a worker); token and recovery are digests,
--       empty for a claim, recovery also once it was confirmed
-- REPLY the last number in the stream: for 'a' the index, for 'c' the seq
-- ERRORS UNKNOWN FENCED
local head, input, input_audio, output, output_audio, ready = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local incarnation, kind, number, holder, token, recovery = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local record, lease_ms, member, publish = ARGV[7], tonumber(ARGV[8]), ARGV[9], ARGV[10]

local h = redis.call('HMGET', head, 'incarnation', 'state', 'generation', 'fence', 'gateway', 'worker', 'claims',
  'attached_until', 'token')
if h[1] ~= incarnation or h[2] == 'closed' then return redis.error_reply('UNKNOWN session') end
local id, until_ms = number .. '-0', now_ms() + lease_ms

if kind == 'a' then
  if h[3] == number and h[5] == holder and h[9] == token and h[8] ~= '0' then
    local _, last = ends_of(input)
    return last
  end
  if tonumber(h[3]) ~= tonumber(number) - 1 then return redis.error_reply('FENCED ' .. h[3]) end
  redis.call('HSET', head, 'generation', number, 'attached_until', until_ms, 'gateway', holder)
  if recovery == '' then
    redis.call('HSET', head, 'token', token)
    redis.call('HDEL', head, 'recovery', 'unconfirmed')
  else
    rotate_token(head, recovery, token)
  end
  redis.call('XADD', input, id, 'm', record)
  fence_off(input_audio, id)
  announce_record(publish, input, id, record)
  redis.call(publish, output, 'a ' .. number .. '\n')
  return 0
end

local last = seqs_of(output, h[7])
if h[4] == number and h[6] == holder and h[2] == 'claimed' then return last end
if tonumber(h[4]) ~= tonumber(number) - 1 then return redis.error_reply('FENCED ' .. h[4]) end
local first = last + 1
local claims = string.gsub(h[7], '%d+:' .. first .. ';', '') .. number .. ':' .. first .. ';'
redis.call('XADD', output, id, 'm', record)
fence_off(output_audio, id)
-- The run stays that of the last real claim: should this worker die too, the next one must still have its doubts.
redis.call('HSET', head, 'state', 'claimed', 'fence', number, 'worker', holder, 'claims', claims)
redis.call('ZADD', ready, until_ms, member)
announce_record(publish, output, id, record)
return last
