// What sounds when, and how much of it did.

import assert from "node:assert/strict";
import { test } from "node:test";
import { PlaybackQueue } from "../../../gateway/web/talk/playback-queue.js";

const RATE_HZ = 1_000;
const piece = (id, value, size, startMs) => ({ id, samples: new Float32Array(size).fill(value), startMs, endMs: startMs + size });
const rendered = (queue, size) => {
  const out = new Float32Array(size);
  queue.render(out);
  return [...out];
};

test("pieces follow each other without a gap, and the position follows them", () => {
  const queue = new PlaybackQueue(RATE_HZ);
  queue.push(piece("a", 0.25, 60, 0));
  queue.push(piece("a", 0.5, 40, 60));
  const out = rendered(queue, 80);
  assert.deepEqual([out[59], out[60], out[79]], [0.25, 0.5, 0.5]);
  assert.deepEqual(queue.position, { id: "a", ms: 80 });
  assert.equal(queue.queuedMs, 20);
});

test("sound starts once there is enough of it, or when no more will come", () => {
  const queue = new PlaybackQueue(RATE_HZ);
  queue.push(piece("a", 1, 30, 0));
  assert.equal(rendered(queue, 10)[0], 0);
  queue.finish("a");
  assert.equal(rendered(queue, 10)[0], 1);
});

test("a hole in the middle is counted, the end is not", () => {
  const queue = new PlaybackQueue(RATE_HZ);
  queue.push(piece("a", 1, 60, 0));
  rendered(queue, 100);
  assert.equal(queue.underruns, 1);
  queue.push(piece("a", 1, 60, 60));
  queue.finish("a");
  rendered(queue, 100);
  assert.equal(queue.underruns, 1);
});

test("a flush fades out at once and leaves the position where it was", () => {
  const queue = new PlaybackQueue(RATE_HZ);
  queue.push(piece("a", 1, 500, 0));
  rendered(queue, 100);
  queue.flush();
  const out = rendered(queue, 20);
  assert.ok(out[0] > out[5] && out[6] === 0);
  assert.deepEqual(rendered(queue, 20), Array(20).fill(0));
  assert.deepEqual([queue.position, queue.queuedMs], [{ id: "a", ms: 100 }, 0]);
});

test("the next answer begins in the same breath", () => {
  const queue = new PlaybackQueue(RATE_HZ);
  queue.push(piece("a", 0.25, 60, 0));
  queue.finish("a");
  queue.push(piece("b", 0.5, 60, 0));
  queue.finish("b");
  assert.deepEqual(rendered(queue, 120).slice(58, 62), [0.25, 0.25, 0.5, 0.5]);
  assert.deepEqual(queue.position, { id: "b", ms: 60 });
});
