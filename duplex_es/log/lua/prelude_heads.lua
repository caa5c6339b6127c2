-- What scripts share about heads; comes after the prelude.
-- KEYS  none
-- ARGV  none
-- REPLY none
-- ERRORS UNKNOWN FENCED LOST EXISTS

-- An error reply unless this writer is the newest one of an open session. `field` is 'generation' or 'fence'.
local function refusal(head, incarnation, field, number)
  local stands = redis.call('HMGET', head, 'incarnation', 'state', field)
  if stands[1] ~= incarnation or stands[2] == 'closed' then return redis.error_reply('UNKNOWN session') end
  if stands[3] ~= number then return redis.error_reply('FENCED ' .. stands[3]) end
end

-- An error reply when the store has lost what the writer of the output knows to have landed: it may write that again.
local function lost_after(head, output, known)
  local last = seqs_of(output, redis.call('HGET', head, 'claims'))
  if last < known then return redis.error_reply('LOST ' .. last) end
end

-- The fields of a Head, in the order of its Python twin. Snapshots are left where they are: they are large.
local function head_of(head, input, output, snap)
  local h = redis.call('HMGET', head, 'incarnation', 'model', 'state', 'generation', 'attached_until', 'gateway',
    'fence', 'worker', 'claims', 'acknowledged', 'opening', 'closed_input', 'closed_seq')
  local last, first = seqs_of(output, h[9], tonumber(h[13]))
  local attached = tonumber(h[5]) > now_ms() and 1 or 0
  return {h[1], h[2], h[3], h[4], attached, h[6], h[7], h[8], last, last_input_of(input, h[12]), first, h[10], h[11],
    redis.call('HGET', snap, 'current')}
end

-- Names this start of this server, and says for how many seconds it has been up at most. Another name later means that
-- the store may have lost its last moments. Empty, and for ever, where INFO is forbidden.
local function store_run()
  local info = redis.pcall('INFO', 'server')
  if type(info) ~= 'string' then return '', math.huge end
  local up_s = tonumber(string.match(info, 'uptime_in_seconds:(%d+)'))
  return string.match(info, 'run_id:(%x+)') or '', up_s and up_s + 1 or math.huge
end

-- The generation or fence after `number`. Numbers given out under another run may be lost with their records, so then
-- it is above all of them: nobody takes one every millisecond.
local function number_after(number, run, current_run, created_ms)
  local following = tonumber(number) + 1
  if not run or run == current_run then return following end
  return following + 1 + math.floor(now_ms() - created_ms)
end

-- A reader that went past `fence` would have noticed seqs that were used again.
local function forget_doubt(head, doubt_fence, passed)
  if doubt_fence and tonumber(passed) >= tonumber(doubt_fence) then
    redis.call('HDEL', head, 'doubt_seq', 'doubt_fence')
  end
end

-- What of a head stays with the streams when the session is over.
local KEPT = {'model', 'created_ms', 'generation', 'gateway', 'fence', 'worker', 'acknowledged', 'opening'}

-- An error reply unless this life of a session is over and something of it is left; else where its keys begin among
-- `keys` (head in in_audio out out_audio snap): the head may stand for a later life by now.
local function closed_life(keys, incarnation)
  local h = redis.call('HMGET', keys[1], 'incarnation', 'state')
  if h[1] == incarnation and h[2] ~= 'closed' then return nil, redis.error_reply('EXISTS open') end
  if redis.call('EXISTS', keys[2]) == 0 then return nil, redis.error_reply('UNKNOWN session') end
  return h[1] == incarnation and 1 or 2
end

-- Closes a session. `keys` are head in in_audio out out_audio snap ready sessions, in this order.
local function end_session(keys, reason, retention_s, member, publish)
  local head, input, output, snap = keys[1], keys[2], keys[4], keys[6]
  local h = redis.call('HMGET', head, 'generation', 'fence', 'claims')
  local kept = redis.call('HMGET', head, unpack(KEPT))
  local last, retention_ms = seqs_of(output, h[3]), math.floor(retention_s * 1000)
  redis.call('HSET', head, 'state', 'closed', 'reason', reason, 'attached_until', 0,
    'closed_input', last_input_of(input), 'closed_seq', last)
  -- The head goes on to the next incarnation; this goes where the streams go.
  redis.call('HSET', snap, 'claims', h[3], 'closed_seq', last, 'closed_input', last_input_of(input), 'reason', reason)
  for n, name in ipairs(KEPT) do
    if kept[n] then redis.call('HSET', snap, name, kept[n]) end
  end
  local attachment_over, claim_over = (tonumber(h[1]) + 1) .. '-0', (tonumber(h[2]) + 1) .. '-0'
  fence_off(input, attachment_over)
  fence_off(keys[3], attachment_over)
  fence_off(output, claim_over)
  fence_off(keys[5], claim_over)
  redis.call('ZREM', keys[7], member)
  redis.call('ZADD', keys[8], now_ms() + retention_ms, member)
  for n = 1, 6 do redis.call('PEXPIRE', keys[n], retention_ms) end
  redis.call(publish, output, 'z \n' .. reason)
  redis.call(publish, input, 'z \n' .. reason)
end
