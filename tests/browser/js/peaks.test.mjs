// Tiles of peaks, asked for as they come into view, and what a report has embedded.

import assert from "node:assert/strict";
import { test } from "node:test";
import { BINS, binMs, levelFor, Peaks, tileMs } from "../../../gateway/web/timeline/peaks.js";
import { Embedded } from "../../../gateway/web/timeline/source.js";

const tiles = (value) => async (lane, level, numbers) => new Uint8Array(BINS * numbers.length).fill(value + level);

function loaded(load) {
  return new Promise((done) => {
    const peaks = new Peaks(load, () => done(peaks));
    peaks.loudest("caller", 1, 0, 40);
  });
}

test("the level is the coarsest that has a bin for each pixel", () => {
  assert.deepEqual([1, 10, 39, 40, 2450, 1e9].map(levelFor), [0, 0, 0, 1, 3, 4]);
  assert.equal(tileMs(0), binMs(0) * BINS);
});

test("a tile is asked for once, and a coarser one stands in for a finer one", async () => {
  let asked = 0;
  const peaks = await loaded((...what) => (asked++, tiles(100)(...what)));
  assert.equal(peaks.loudest("caller", 1, 0, 40), 101);
  assert.equal(peaks.loudest("caller", 0, 0, 10), 101);
  assert.equal(asked, 1);
});

test("what may be another is asked for again and shown until then", async () => {
  const peaks = await loaded(tiles(100));
  peaks.load = tiles(50);
  const again = new Promise((done) => (peaks.changed = done));
  peaks.forget(0);
  assert.equal(peaks.loudest("caller", 1, 0, 40), 101);
  await again;
  assert.equal(peaks.loudest("caller", 1, 0, 40), 51);
});

test("a tile that could not be had is asked for again", async () => {
  const peaks = await loaded(async () => {
    throw new Error("gone");
  });
  peaks.load = tiles(7);
  const again = new Promise((done) => (peaks.changed = done));
  assert.equal(peaks.loudest("caller", 1, 0, 40), 0);
  await again;
  assert.equal(peaks.loudest("caller", 1, 0, 40), 8);
});

test("a report makes coarse tiles of its fine ones, and windows of its chunks of sound", async () => {
  const [first, second] = [new Uint8Array(BINS), new Uint8Array(BINS)];
  first[5] = 9;
  second[8] = 8;
  const chunk = new Int16Array(8 * 10_000).fill(3);
  const text = (bytes) => Buffer.from(bytes).toString("base64");
  const source = new Embedded({
    document: { session: "s" },
    peaks: { caller: { 0: text(first), 1: text(second) } },
    records: { output: [{ id: "1-4" }, { id: "2-5" }], input: [{ id: "1-0" }] },
    audio: { caller: { rate_hz: 8_000, chunk_ms: 10_000, chunks: { 1: text(chunk.buffer) } } },
  });
  const coarse = await source.peaks("caller", 1, [0]);
  assert.deepEqual([coarse[1], coarse[130], coarse[2]], [9, 8, 0]);
  assert.equal((await source.peaks("caller", 0, [0, 1]))[520], 8);
  const samples = new Int16Array(await source.audio("caller", 9_000, 12_000), 44);
  assert.deepEqual([samples.length, samples[7_999], samples[8_000], samples[23_999]], [24_000, 0, 3, 3]);
  assert.equal((await source.record({ stream: "output", seq: 5 })).id, "2-5");
  assert.equal((await source.after("output", "1-4")).id, "2-5");
  assert.equal(await source.after("input", "1-0"), null);
  await assert.rejects(source.record({ stream: "input", id: "9-9" }), /no such record/);
});
