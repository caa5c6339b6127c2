// How events are read.

import assert from "node:assert/strict";
import { test } from "node:test";
import { errorOf, parseEvent, responseIdOf, seqOf, withoutSound } from "../../../gateway/web/talk/events.js";

test("only an object with a type is an event", () => {
  assert.deepEqual(parseEvent('{"type":"x"}'), { type: "x" });
  for (const text of ["", "[]", "null", '{"type":1}', "{", 5]) assert.equal(parseEvent(text), null);
});

test("an error is read in both of its envelopes", () => {
  const nested = { type: "error", error: { code: "a", message: "m", event_id: "e", retry_after_ms: 5 } };
  assert.deepEqual(errorOf(nested), { code: "a", message: "m", eventId: "e", retryAfterMs: 5 });
  assert.deepEqual(errorOf({ type: "error", error: "flat", code: "b" }), { code: "b", message: "flat", eventId: null, retryAfterMs: null });
});

test("a response is named at the top or inside", () => {
  assert.equal(responseIdOf({ response_id: "r" }), "r");
  assert.equal(responseIdOf({ response: { id: "r" } }), "r");
  assert.equal(responseIdOf({}), null);
});

test("a number that is none is no place in the session", () => {
  assert.equal(seqOf({ server_event_seq: 3 }), 3);
  assert.equal(seqOf({ server_event_seq: "3" }), null);
});

test("sound gives way to its size, words do not", () => {
  assert.equal(withoutSound({ type: "response.output_audio.delta", delta: "AAAA" }).delta, "(3 bytes)");
  assert.equal(withoutSound({ type: "response.output_audio_transcript.delta", delta: "Hi" }).delta, "Hi");
});
