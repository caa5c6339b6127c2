// Sound at another rate is the same sound.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Resampler } from "../../../gateway/web/talk/resampler.js";

const tone = (hz, rateHz, seconds) =>
  Float32Array.from({ length: rateHz * seconds }, (_, at) => 0.5 * Math.sin((2 * Math.PI * hz * at) / rateHz));

function through(resampler, samples, size) {
  const pieces = [];
  for (let at = 0; at < samples.length; at += size) pieces.push(...resampler.push(samples.subarray(at, at + size)));
  return Float32Array.from([...pieces, ...resampler.flush()]);
}

// The largest difference in the middle, where the filter has all it needs.
function difference(left, right) {
  let most = 0;
  for (let at = 400; at < Math.min(left.length, right.length) - 400; at += 1) most = Math.max(most, Math.abs(left[at] - right[at]));
  return most;
}

for (const [from, to] of [[48_000, 16_000], [44_100, 16_000], [24_000, 48_000], [22_050, 44_100], [16_000, 48_000]]) {
  test(`a tone keeps pitch, loudness and place from ${from} to ${to} Hz`, () => {
    const result = through(new Resampler(from, to), tone(440, from, 1), 128);
    assert.ok(Math.abs(result.length - to) <= 2, `${result.length} samples for one second`);
    assert.ok(difference(result, tone(440, to, 1)) < 0.005);
  });
}

test("the size of the pieces changes nothing", () => {
  const samples = tone(300, 48_000, 0.5);
  const whole = through(new Resampler(48_000, 16_000), samples, samples.length);
  const pieces = through(new Resampler(48_000, 16_000), samples, 127);
  assert.equal(whole.length, pieces.length);
  assert.ok(whole.every((sample, at) => Math.abs(sample - pieces[at]) < 1e-6));
});

test("what the lower rate cannot hold is taken out, not folded back", () => {
  const result = through(new Resampler(48_000, 16_000), tone(12_000, 48_000, 0.5), 128);
  assert.ok(Math.max(...result.subarray(400, -400).map(Math.abs)) < 0.005);
});

test("ten minutes of pieces drifts by no sample", () => {
  const resampler = new Resampler(44_100, 16_000);
  let count = 0;
  const piece = new Float32Array(4_410);
  for (let at = 0; at < 6_000; at += 1) count += resampler.push(piece).length;
  assert.ok(Math.abs(count - 600 * 16_000) < 32, `${count}`);
});

test("the same rate passes sound through untouched", () => {
  const samples = tone(440, 16_000, 0.1);
  assert.equal(new Resampler(16_000, 16_000).push(samples), samples);
});
