"""The device's kernels of one step, in triton: a dozen small things that a library would launch one by one.

Every program works on one row, or on one head of one row, and reads no other: what runs beside it cannot change it.
Sums are in float32. Without a GPU they run in triton's interpreter (``TRITON_INTERPRET=1``), for tests.
"""

from __future__ import annotations

import triton
import triton.language as tl

LOG2_E = 1.4426950408889634


@triton.jit
def embed(ids, texts, codes, x, STREAMS: tl.constexpr, CODES_A_BOOK, WIDTH, BLOCK: tl.constexpr):
    """x[row] = texts[ids[row, 0]] + the sum over k of codes[k, ids[row, 1 + k]]."""
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < WIDTH
    total = tl.load(texts + tl.load(ids + row * STREAMS) * WIDTH + at, inside, 0.0).to(tl.float32)
    for book in range(STREAMS - 1):
        entry = book * CODES_A_BOOK + tl.load(ids + row * STREAMS + 1 + book)
        total += tl.load(codes + entry * WIDTH + at, inside, 0.0).to(tl.float32)
    tl.store(x + row * WIDTH + at, total.to(x.dtype.element_ty), inside)


@triton.jit
def _store_normed(value, gain, y, WIDTH, at, inside, FLOOR: tl.constexpr):
    scale = 1.0 / tl.sqrt(tl.sum(value * value, 0) / WIDTH + FLOOR)
    gained = value * scale * tl.load(gain + at, inside, 0.0).to(tl.float32)
    tl.store(y + at, gained.to(y.dtype.element_ty), inside)


@triton.jit
def add_and_norm(x, more, gain, y, WIDTH, BLOCK: tl.constexpr, ADDS: tl.constexpr, FLOOR: tl.constexpr):
    """x[row] += more[row] (with ADDS); y[row] = x[row], normed."""
    start = tl.program_id(0).to(tl.int64) * WIDTH
    at = tl.arange(0, BLOCK)
    inside = at < WIDTH
    value = tl.load(x + start + at, inside, 0.0)
    if ADDS:
        value = (value.to(tl.float32) + tl.load(more + start + at, inside, 0.0).to(tl.float32)).to(value.dtype)
        tl.store(x + start + at, value, inside)
    _store_normed(value.to(tl.float32), gain, y + start, WIDTH, at, inside, FLOOR)


@triton.jit
def enter_and_norm(
    before, before_stride, table, ids, ids_stride, gain, x, y, WIDTH, BLOCK: tl.constexpr, FLOOR: tl.constexpr
):
    """x[row] = before[row] + table[ids[row]]; y[row] = x[row], normed."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < WIDTH
    entry = tl.load(ids + row * ids_stride)
    value = tl.load(before + row * before_stride + at, inside, 0.0).to(tl.float32)
    value = (value + tl.load(table + entry * WIDTH + at, inside, 0.0).to(tl.float32)).to(x.dtype.element_ty)
    tl.store(x + row * WIDTH + at, value, inside)
    _store_normed(value.to(tl.float32), gain, y + row * WIDTH, WIDTH, at, inside, FLOOR)


@triton.jit
def gate(both, y, WIDTH, BLOCK: tl.constexpr):
    """y[row] = silu of the first half of both[row], times its second half."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < WIDTH
    opening = tl.load(both + row * 2 * WIDTH + at, inside, 0.0).to(tl.float32)
    value = tl.load(both + row * 2 * WIDTH + WIDTH + at, inside, 0.0).to(tl.float32)
    tl.store(y + row * WIDTH + at, (opening / (1.0 + tl.exp(-opening)) * value).to(y.dtype.element_ty), inside)


# -- attention over time -------------------------------------------------------------------------------------------


@triton.jit
def _keep(even, odd, ring, scales, cell, pair, HEAD: tl.constexpr, IS_INT8: tl.constexpr, LEAST: tl.constexpr):
    """Store one head's row, even and odd numbers apart, in its cell of the ring."""
    if IS_INT8:
        most = tl.maximum(tl.max(tl.abs(even), 0), tl.max(tl.abs(odd), 0))
        scale = ((most + LEAST) / 127.0).to(tl.float16)
        tl.store(scales + cell, scale)
        even = tl.floor(even / scale.to(tl.float32) + 0.5)
        odd = tl.floor(odd / scale.to(tl.float32) + 0.5)
        even = tl.minimum(tl.maximum(even, -127.0), 127.0)
        odd = tl.minimum(tl.maximum(odd, -127.0), 127.0)
    tl.store(ring + cell * HEAD + 2 * pair, even.to(ring.dtype.element_ty))
    tl.store(ring + cell * HEAD + 2 * pair + 1, odd.to(ring.dtype.element_ty))


@triton.jit(do_not_specialize=["only", "COLUMNS"])
def turn_and_keep(
    qkv,
    cosine,
    sine,
    column,
    query,
    keys,
    values,
    key_scales,
    value_scales,
    only,
    HEADS,
    COLUMNS,
    HEAD: tl.constexpr,
    IS_PIECE: tl.constexpr,
    IS_INT8: tl.constexpr,
    LEAST: tl.constexpr,
):
    """Row r of qkv (rows, 3, heads, head): the query is turned into query (rows, heads, head), key and value go into

    the ring at column[r] of slot r, or of slot ``only`` where the rows are a piece of one session.
    """
    row = tl.program_id(0)
    head = tl.program_id(1)
    pair = tl.arange(0, HEAD // 2)
    cos = tl.load(cosine + row * (HEAD // 2) + pair)
    sin = tl.load(sine + row * (HEAD // 2) + pair)
    source = qkv + row.to(tl.int64) * 3 * HEADS * HEAD + head * HEAD
    even = tl.load(source + 2 * pair).to(tl.float32)
    odd = tl.load(source + 2 * pair + 1).to(tl.float32)
    target = query + (row * HEADS + head) * HEAD + 2 * pair
    tl.store(target, (even * cos - odd * sin).to(query.dtype.element_ty))
    tl.store(target + 1, (odd * cos + even * sin).to(query.dtype.element_ty))
    slot = only if IS_PIECE else row
    cell = (slot * HEADS + head).to(tl.int64) * COLUMNS + tl.load(column + row)
    source += HEADS * HEAD
    even = tl.load(source + 2 * pair).to(tl.float32)
    odd = tl.load(source + 2 * pair + 1).to(tl.float32)
    # As the plain path has it: turned in float32, then in the model's numbers.
    key_even = (even * cos - odd * sin).to(qkv.dtype.element_ty).to(tl.float32)
    key_odd = (odd * cos + even * sin).to(qkv.dtype.element_ty).to(tl.float32)
    _keep(key_even, key_odd, keys, key_scales, cell, pair, HEAD, IS_INT8, LEAST)
    source += HEADS * HEAD
    even = tl.load(source + 2 * pair).to(tl.float32)
    odd = tl.load(source + 2 * pair + 1).to(tl.float32)
    _keep(even, odd, values, value_scales, cell, pair, HEAD, IS_INT8, LEAST)


@triton.jit
def _share(position, run, slot, part, COLUMNS, PARTS: tl.constexpr, TILE: tl.constexpr):
    """Which filled columns of a slot are this part's: from, to. None for a slot that does not run."""
    filled = tl.minimum(tl.load(position + slot) + 1, COLUMNS).to(tl.int32)
    filled = filled * tl.load(run + slot).to(tl.int32)
    each = tl.cdiv(tl.cdiv(filled, PARTS), TILE) * TILE
    begin = part * each
    return begin, tl.minimum(begin + each, filled)


@triton.jit
def _is_seen(position, slot, here, end, COLUMNS, WINDOW, IS_SPARE: tl.constexpr):
    """Which of the columns ``here`` are filled and hold what the slot's query sees.

    Without spare columns that is all there is.
    """
    inside = here < end
    if IS_SPARE:
        age = (tl.load(position + slot) % COLUMNS).to(tl.int32) - here
        inside = inside & (tl.where(age < 0, age + COLUMNS, age) < WINDOW)
    return inside


@triton.jit
def attend(
    query, keys, values, position, run, sums, marks, HEADS, COLUMNS, WINDOW, scale,
    PARTS: tl.constexpr, HEAD: tl.constexpr, TILE: tl.constexpr, STAGES: tl.constexpr, IS_SPARE: tl.constexpr,
):  # fmt: skip
    """One part of one head's look at the ring: an unnormalised sum, its greatest score and its weight.

    The query is one row of sixteen, so that the matrix units can be used; the others are zero.
    """
    slot, head, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    begin, end = _share(position, run, slot, part, COLUMNS, PARTS, TILE)
    at, place, lane = tl.arange(0, HEAD), tl.arange(0, TILE), tl.arange(0, 16)
    is_query = lane == 0
    base = (slot * HEADS + head).to(tl.int64) * COLUMNS * HEAD
    asked = tl.load(query + (slot * HEADS + head) * HEAD + at[None, :] + lane[:, None] * 0, is_query[:, None], 0.0)
    most = tl.full([16], -1e30, tl.float32)
    weight = tl.zeros([16], tl.float32)
    total = tl.zeros([16, HEAD], tl.float32)
    for start in tl.range(begin, end, TILE, num_stages=STAGES):
        here = start + place
        inside = _is_seen(position, slot, here, end, COLUMNS, WINDOW, IS_SPARE)
        key = tl.load(keys + base + here[None, :] * HEAD + at[:, None], inside[None, :], 0.0).to(asked.dtype)
        value = tl.load(values + base + here[:, None] * HEAD + at[None, :], inside[:, None], 0.0).to(asked.dtype)
        score = tl.dot(asked, key, input_precision="ieee") * scale
        score = tl.where(inside[None, :], score, -1e30)
        greater = tl.maximum(most, tl.max(score, 1))
        shrink = tl.exp2(most - greater)
        share = tl.where(inside[None, :], tl.exp2(score - greater[:, None]), 0.0)
        total = total * shrink[:, None] + tl.dot(share.to(asked.dtype), value, input_precision="ieee")
        weight = weight * shrink + tl.sum(share, 1)
        most = greater
    out = (slot * HEADS + head) * PARTS + part
    tl.store(sums + out * HEAD + at[None, :] + lane[:, None] * 0, total, is_query[:, None] & (at >= 0)[None, :])
    tl.store(marks + out * 2 + lane * 0, most, is_query)
    tl.store(marks + out * 2 + 1 + lane * 0, weight, is_query)


@triton.jit
def _bytes_apart(two, ON_DEVICE: tl.constexpr):
    """Pairs of int8 in an int16 to two float16 tensors, low bytes and high bytes, exactly.

    A byte with its sign turned over is the low half of 1024 + byte in float16; 1152 less is the byte. Converting by
    instruction would cost more than loading.
    """
    if ON_DEVICE:
        low, high = tl.inline_asm_elementwise(
            """{ .reg .b32 turned, most, bias;
            xor.b32 turned, $2, 0x80808080;
            mov.b32 most, 0x64646464;
            mov.b32 bias, 0x64806480;
            prmt.b32 $0, turned, most, 0x4240;
            prmt.b32 $1, turned, most, 0x4341;
            sub.rn.f16x2 $0, $0, bias;
            sub.rn.f16x2 $1, $1, bias; }""",
            "=&r,=&r,r",
            [two],
            dtype=(tl.float16, tl.float16),
            is_pure=True,
            pack=2,
        )
    else:
        low = ((two << 8).to(tl.int16) >> 8).to(tl.float16)
        high = (two >> 8).to(tl.float16)
    return low, high


@triton.jit
def attend_int8(
    query, keys, values, key_scales, value_scales, position, run, sums, marks, HEADS, COLUMNS, WINDOW, scale,
    PARTS: tl.constexpr, HEAD: tl.constexpr, TILE: tl.constexpr, STAGES: tl.constexpr, IS_SPARE: tl.constexpr,
    ON_DEVICE: tl.constexpr,
):  # fmt: skip
    """The same over an int8 ring, given as int16: even and odd numbers of a row go through the matrix units apart.

    Scales are applied to scores and weights, not to the rows.
    """
    slot, head, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    begin, end = _share(position, run, slot, part, COLUMNS, PARTS, TILE)
    HALF: tl.constexpr = HEAD // 2
    at, place, lane = tl.arange(0, HALF), tl.arange(0, TILE), tl.arange(0, 16)
    is_query = lane == 0
    cells = (slot * HEADS + head).to(tl.int64) * COLUMNS
    asked = query + (slot * HEADS + head) * HEAD + 2 * at[None, :] + lane[:, None] * 0
    even = tl.load(asked, is_query[:, None], 0.0).to(tl.float16)
    odd = tl.load(asked + 1, is_query[:, None], 0.0).to(tl.float16)
    most = tl.full([16], -1e30, tl.float32)
    weight = tl.zeros([16], tl.float32)
    even_total = tl.zeros([16, HALF], tl.float32)
    odd_total = tl.zeros([16, HALF], tl.float32)
    for start in tl.range(begin, end, TILE, num_stages=STAGES):
        here = start + place
        inside = _is_seen(position, slot, here, end, COLUMNS, WINDOW, IS_SPARE)
        key = tl.load(keys + (cells + here)[None, :] * HALF + at[:, None], inside[None, :], 0)
        value = tl.load(values + (cells + here)[:, None] * HALF + at[None, :], inside[:, None], 0)
        key_scale = tl.load(key_scales + cells + here, inside, 0.0).to(tl.float32)
        value_scale = tl.load(value_scales + cells + here, inside, 0.0).to(tl.float32)
        low, high = _bytes_apart(key, ON_DEVICE)
        score = tl.dot(odd, high, tl.dot(even, low)) * (scale * key_scale)[None, :]
        score = tl.where(inside[None, :], score, -1e30)
        greater = tl.maximum(most, tl.max(score, 1))
        shrink = tl.exp2(most - greater)
        share = tl.where(inside[None, :], tl.exp2(score - greater[:, None]), 0.0)
        weight = weight * shrink + tl.sum(share, 1)
        most = greater
        share = (share * value_scale[None, :]).to(tl.float16)
        low, high = _bytes_apart(value, ON_DEVICE)
        even_total = tl.dot(share, low, even_total * shrink[:, None])
        odd_total = tl.dot(share, high, odd_total * shrink[:, None])
    out = (slot * HEADS + head) * PARTS + part
    where = sums + out * HEAD + 2 * at[None, :] + lane[:, None] * 0
    stored = is_query[:, None] & (at >= 0)[None, :]
    tl.store(where, even_total, stored)
    tl.store(where + 1, odd_total, stored)
    tl.store(marks + out * 2 + lane * 0, most, is_query)
    tl.store(marks + out * 2 + 1 + lane * 0, weight, is_query)


@triton.jit
def merge(sums, marks, looked, HEADS, PARTS: tl.constexpr, HEAD: tl.constexpr):
    """The parts of one head to its result; zeros for a slot that does not run."""
    row = tl.program_id(0) * HEADS + tl.program_id(1)
    at, part = tl.arange(0, HEAD), tl.arange(0, PARTS)
    most = tl.load(marks + (row * PARTS + part) * 2)
    weight = tl.load(marks + (row * PARTS + part) * 2 + 1)
    shrink = tl.exp2(most - tl.max(most, 0))
    found = tl.load(sums + (row * PARTS + part)[:, None] * HEAD + at[None, :])
    result = tl.sum(found * shrink[:, None], 0) / tl.maximum(tl.sum(weight * shrink, 0), 1e-30)
    tl.store(looked + row * HEAD + at, result.to(looked.dtype.element_ty))


# -- within a frame ------------------------------------------------------------------------------------------------


@triton.jit(do_not_specialize=["step"])
def attend_in_frame(
    qkv, keys, values, looked, step, scale, HEADS: tl.constexpr, STEPS: tl.constexpr, HEAD: tl.constexpr
):
    """One head's look at the steps before this one and at itself; its key and value are kept for the next."""
    row, head = tl.program_id(0), tl.program_id(1)
    at, other = tl.arange(0, HEAD), tl.arange(0, STEPS)
    source = qkv + row * 3 * HEADS * HEAD + head * HEAD
    base = (row * HEADS + head) * STEPS * HEAD
    query = tl.load(source + at).to(tl.float32) * scale
    key = tl.load(source + HEADS * HEAD + at)
    value = tl.load(source + 2 * HEADS * HEAD + at)
    tl.store(keys + base + step * HEAD + at, key)
    tl.store(values + base + step * HEAD + at, value)
    is_before = other < step
    where = base + other[:, None] * HEAD + at[None, :]
    past_key = tl.load(keys + where, is_before[:, None], 0.0).to(tl.float32)
    past_value = tl.load(values + where, is_before[:, None], 0.0).to(tl.float32)
    score = tl.where(is_before, tl.sum(query[None, :] * past_key, 1), -1e30)
    own = tl.sum(query * key.to(tl.float32), 0)
    most = tl.maximum(tl.max(score, 0), own)
    share = tl.where(is_before, tl.exp2(score - most), 0.0)
    own_share = tl.exp2(own - most)
    total = tl.sum(share[:, None] * past_value, 0) + own_share * value.to(tl.float32)
    total = total / (tl.sum(share, 0) + own_share)
    tl.store(looked + (row * HEADS + head) * HEAD + at, total.to(looked.dtype.element_ty))


@triton.jit
def _mixed(word):
    word = word ^ (word >> 16)
    word = word * 0x7FEB352D
    word = word ^ (word >> 15)
    word = word * 0x846CA68B
    return word ^ (word >> 16)


@triton.jit(do_not_specialize=["stream"])
def draw(
    logits, dice, forced, ids, stream, STREAMS: tl.constexpr, temperature, TOP, CARD,
    BLOCK: tl.constexpr, GREEDY: tl.constexpr, BITS: tl.constexpr,
):  # fmt: skip
    """ids[row, stream]: what is forced, or one of the TOP likeliest, drawn as ``sampling.drawn`` does.

    BITS is how many leading bits of a float32 tell two logits apart.
    """
    row = tl.program_id(0)
    item = tl.arange(0, BLOCK)
    inside = item < CARD
    value = tl.load(logits + row * CARD + item, inside, float("-inf")).to(tl.float32)
    if GREEDY:
        found = tl.argmax(value, 0)
    else:
        # Floats in the order of unsigned integers; the TOP-th largest is found bit by bit.
        bits = value.to(tl.uint32, bitcast=True)
        flip = tl.where(bits >> 31 != 0, 0xFFFFFFFF, 0x80000000).to(tl.uint32)
        order = tl.where(inside, bits ^ flip, 0).to(tl.uint32)
        least = tl.full([], 0, tl.uint32)
        for number in range(BITS):
            tried = (least | (tl.full([], 0x80000000, tl.uint32) >> number)).to(tl.uint32)
            many = tl.sum((order >= tried).to(tl.int32), 0)
            least = tl.where(many >= TOP, tried, least).to(tl.uint32)
        key = tl.load(dice + row * STREAMS + stream).to(tl.uint32)
        word = _mixed(key ^ (item.to(tl.uint32) * 0x9E3779B9).to(tl.uint32))
        uniform = ((word >> 8).to(tl.float32) + 0.5) * 5.9604644775390625e-08
        chance = value / temperature - tl.log(-tl.log(uniform))
        found = tl.argmax(tl.where(inside & (order >= least), chance, float("-inf")), 0)
    must = tl.load(forced + row * STREAMS + stream)
    tl.store(ids + row * STREAMS + stream, tl.where(must >= 0, must, found.to(tl.int64)))
