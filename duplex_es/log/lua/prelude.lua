-- What scripts share about streams; put in front of each, or once at the top of the function library.
-- KEYS  none
-- ARGV  none
-- REPLY none
-- ERRORS none

-- With a fraction, so that a queue keeps the order of what arrives within one millisecond.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + time[2] / 1000
end

-- The last id a stream ever had and the id of its first entry, as four numbers; nothing when there is no stream.
local function ends_of(stream)
  local info = redis.pcall('XINFO', 'STREAM', stream)
  if info.err then return nil end
  local found = {}
  for n = 1, #info, 2 do found[info[n]] = info[n + 1] end
  local generation, number = string.match(found['last-generated-id'], '(%d+)-(%d+)')
  local first = found['first-entry']
  if not first then return tonumber(generation), tonumber(number) end
  local first_generation, first_number = string.match(first[1], '(%d+)-(%d+)')
  return tonumber(generation), tonumber(number), tonumber(first_generation), tonumber(first_number)
end

-- `claims` lists '<fence>:<first seq>;', ascending, of every claim that wrote something which is left, and of the newest.
-- The first seq that claim `fence` wrote or would have written; nothing above the newest claim.
local function first_seq_of(claims, fence)
  for recorded, first in string.gmatch(claims, '(%d+):(%d+)') do
    if tonumber(recorded) >= fence then return tonumber(first) end
  end
end

-- The claim under which `seq` was or would be written; 0 when that is forgotten.
local function claim_of(claims, seq)
  local found = 0
  for recorded, first in string.gmatch(claims, '(%d+):(%d+)') do
    if tonumber(first) <= seq then found = tonumber(recorded) end
  end
  return found
end

-- The last seq ever written and the lowest one left. Number 0 of a generation is a claim's record, not a seq.
local function seqs_of(output, claims, closed_seq)
  local generation, number, first_generation, first_number = ends_of(output)
  if not generation then return 0, 1 end
  local last = number
  if generation == 0 then
    last = 0
  elseif number == 0 then
    last = closed_seq or ((first_seq_of(claims, generation) or 1) - 1)
  end
  if not first_generation then return last, last + 1 end
  if first_number > 0 then return last, first_number end
  return last, first_seq_of(claims, first_generation) or 1
end

local function last_input_of(input, closed_id)
  if closed_id then return closed_id end
  local generation, number = ends_of(input)
  if not generation then return '0-0' end
  return generation .. '-' .. number
end

-- The id of the last entry below `id`; nothing without one.
local function id_below(stream, id)
  if id == '0-0' then return nil end
  local found = redis.call('XREVRANGE', stream, '(' .. id, '-', 'COUNT', 1)
  return found[1] and found[1][1]
end

-- Raises a stream's last id without leaving an entry, so that ids of older generations are refused.
local function fence_off(stream, id)
  redis.call('XADD', stream, id, 'm', '')
  redis.call('XDEL', stream, id)
end

local function announce_record(publish, channel, id, body)
  redis.call(publish, channel, 'r ' .. id .. ' ' .. #body .. ' -\n' .. body)
end
