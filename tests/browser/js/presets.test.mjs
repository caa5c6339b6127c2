// What each model is opened with.

import assert from "node:assert/strict";
import { test } from "node:test";
import { presetOf, sessionConfig } from "../../../gateway/web/talk/presets.js";

test("every session answers by itself and keeps what was really heard", () => {
  for (const model of ["cascade", "echo", "openbmb/MiniCPM-o-4_5", "nvidia/personaplex-7b-v1", "somebody/else"]) {
    const config = sessionConfig(model);
    assert.equal(config.model, model);
    assert.equal(config.extra_body.auto_response, true);
    assert.equal(config.playback_commit_policy, "ack_only");
    assert.equal(config.sample_rate_hz, presetOf(model).input.rateHz);
  }
});

test("the cascade is interrupted by speech, an unknown model by what it says of itself", () => {
  assert.equal(sessionConfig("cascade").overlap_policy, "barge_in_on_speech");
  assert.equal("overlap_policy" in sessionConfig("somebody/else"), false);
});

test("MiniCPM-o is asked for its own lane, with the voice that it needs", () => {
  const config = sessionConfig("openbmb/MiniCPM-o-4_5", { reference: "data:audio/wav;base64,AA" });
  assert.equal(config.extra_body.native_duplex, true);
  assert.equal(config.ref_audio, "data:audio/wav;base64,AA");
  assert.equal(presetOf("openbmb/MiniCPM-o-4_5").needsReference, true);
});

test("empty wishes are left to the model", () => {
  const config = sessionConfig("cascade", { voice: "  ", instructions: "" });
  assert.equal("voice" in config || "instructions" in config, false);
});
