// Pieces of one length out of pieces of any.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Chunker } from "../../../gateway/web/talk/chunker.js";

test("every sample comes once and in order, whatever the sizes", () => {
  const chunker = new Chunker(10);
  const samples = Float32Array.from({ length: 57 }, (_, at) => at);
  const chunks = [7, 30, 1, 19].reduce(
    ({ at, made }, size) => ({ at: at + size, made: [...made, ...chunker.push(samples.subarray(at, at + size))] }),
    { at: 0, made: [] },
  ).made;
  assert.deepEqual(chunks.map(({ length }) => length), [10, 10, 10, 10, 10]);
  assert.deepEqual(chunks.flatMap((chunk) => [...chunk]), [...samples.subarray(0, 50)]);
});

test("a chunk that was handed out is not written to again", () => {
  const chunker = new Chunker(2);
  const [first] = chunker.push(Float32Array.of(1, 2));
  chunker.push(Float32Array.of(3, 4));
  assert.deepEqual([...first], [1, 2]);
});
