// Samples on the wire.

import assert from "node:assert/strict";
import { test } from "node:test";
import { decodePcm16, encodeSamples, peakOf } from "../../../gateway/web/talk/samples.js";

test("16-bit samples are little-endian and come back within one step", () => {
  const samples = Float32Array.of(0, 0.5, -0.5, 1, -1);
  assert.deepEqual([...Buffer.from(encodeSamples(samples, "pcm16"), "base64")].slice(2, 4), [0x00, 0x40]);
  const back = decodePcm16(encodeSamples(samples, "pcm16"));
  back.forEach((sample, at) => assert.ok(Math.abs(sample - samples[at]) < 2 / 32_768));
});

test("samples beyond full scale are cut, not wrapped", () => {
  const back = decodePcm16(encodeSamples(Float32Array.of(1.5, -1.5), "pcm16"));
  assert.ok(back[0] > 0.99 && back[1] < -0.99);
});

test("float samples are four little-endian bytes", () => {
  const bytes = Buffer.from(encodeSamples(Float32Array.of(0.25), "pcm_f32le"), "base64");
  assert.equal(bytes.readFloatLE(0), 0.25);
});

test("a minute of sound is encoded in one go", () => {
  assert.equal(decodePcm16(encodeSamples(new Float32Array(960_000), "pcm16")).length, 960_000);
});

test("the peak is the loudest sample of either sign", () => {
  assert.equal(peakOf(Float32Array.of(0.25, -0.75, 0.5)), 0.75);
});
