-- Puts streams that were written aside in the place of a closed session's, which go; when it expires stays as it was.
-- KEYS  head in in_audio out out_audio snap in_aside in_audio_aside out_aside out_audio_aside
-- ARGV  incarnation opening snapshot_seq snapshot
-- REPLY 1
-- ERRORS UNKNOWN EXISTS
-- FLAGS allow-oom
local head, snap = KEYS[1], KEYS[6]
local incarnation, opening, snapshot_seq, snapshot = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local first, refused = closed_life(KEYS, incarnation)
if refused then return refused end
local left = redis.call('PTTL', KEYS[2])
for n = 2, 5 do
  redis.call('RENAME', KEYS[n + 5], KEYS[n])
  if left > 0 then redis.call('PEXPIRE', KEYS[n], left) end
end
-- Checkpoints and snapshots stand for a session that goes on, or for what was trimmed: they hold what was said.
redis.call('HDEL', snap, 'current', 'previous', 'snapshot_seq', 'snapshot', 'older_seq', 'older', 'opening')
if snapshot_seq ~= '' then redis.call('HSET', snap, 'snapshot_seq', snapshot_seq, 'snapshot', snapshot) end
if first == 1 then redis.call('HDEL', head, 'opening') end
if opening ~= '' then redis.call('HSET', first == 1 and head or snap, 'opening', opening) end
return 1
