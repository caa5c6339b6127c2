// How long the caller waited.

import assert from "node:assert/strict";
import { test } from "node:test";
import { LatencyMeter, VoiceGate } from "../../../gateway/web/talk/latency.js";

test("the wait counts from the end of the voice to the first sound of the first answer", () => {
  const meter = new LatencyMeter();
  meter.turnEnded(1_000);
  meter.soundBegan("r", 1_640);
  meter.soundBegan("r", 2_000);
  meter.soundBegan("s", 2_500);
  assert.deepEqual(meter.values, [640]);
});

test("an answer nobody asked for has no wait", () => {
  const meter = new LatencyMeter();
  meter.soundBegan("r", 500);
  assert.equal(meter.last, null);
});

test("the median is of an even or an odd number of waits", () => {
  const meter = new LatencyMeter();
  [300, 900, 500].forEach((ms, at) => {
    meter.turnEnded(0);
    meter.soundBegan(`r${at}`, ms);
  });
  assert.equal(meter.median, 500);
  meter.turnEnded(0);
  meter.soundBegan("last", 700);
  assert.equal(meter.median, 600);
});

test("voice is told from a quiet room and from a noisy one", () => {
  for (const noise of [0.001, 0.03]) {
    const gate = new VoiceGate();
    gate.push(Array(200).fill(noise), 4_000);
    const before = gate.lastVoiceAtMs;
    gate.push([0.4, 0.5, 0.3, noise], 4_080);
    assert.equal(gate.lastVoiceAtMs, 4_060, `noise ${noise}, before ${before}`);
    gate.push(Array(50).fill(noise), 5_080);
    assert.equal(gate.lastVoiceAtMs, 4_060);
  }
});
