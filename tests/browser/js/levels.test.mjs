// Loudness by time.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Levels } from "../../../gateway/web/talk/levels.js";

test("a level is found where it was put", () => {
  const levels = new Levels(1_000);
  levels.put(0.5, 10_000);
  levels.put(0.25, 10_040);
  assert.deepEqual([levels.at(10_040, 40), levels.at(10_040, 0), levels.at(10_040, 20)], [0.5, 0.25, 0]);
});

test("what is older than the span is gone, also when nothing came for long", () => {
  const levels = new Levels(1_000);
  levels.put(0.5, 10_000);
  levels.put(0.25, 10_980);
  assert.equal(levels.at(10_980, 980), 0.5);
  levels.put(0.25, 11_000);
  assert.equal(levels.at(11_000, 1_000), 0);
  levels.put(0.75, 99_000);
  assert.equal(levels.at(99_000, 500), 0);
});

test("a late level fills its place", () => {
  const levels = new Levels(1_000);
  levels.put(0.25, 10_100);
  levels.put(0.5, 10_000);
  assert.deepEqual([levels.at(10_100, 100), levels.at(10_100, 0)], [0.5, 0.25]);
});
