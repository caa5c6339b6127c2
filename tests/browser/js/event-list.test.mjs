// The list of events.

import assert from "node:assert/strict";
import { test } from "node:test";
import { EventList, filtered, gist } from "../../../gateway/web/talk/event-list.js";

test("repeats of the chatty events are one row with a count", () => {
  const list = new EventList();
  for (let at = 0; at < 3; at += 1) list.push("out", { type: "input_audio_buffer.append", audio: "AAAA" }, at);
  list.push("in", { type: "response.created" }, 4);
  list.push("in", { type: "response.created" }, 5);
  assert.deepEqual(list.rows.map(({ type, count }) => [type, count]), [
    ["input_audio_buffer.append", 3],
    ["response.created", 1],
    ["response.created", 1],
  ]);
});

test("time counts from the first event", () => {
  const list = new EventList();
  list.push("in", { type: "a" }, 5_000);
  list.push("in", { type: "b" }, 5_250);
  assert.deepEqual(list.rows.map(({ atMs }) => atMs), [0, 250]);
});

test("sound is kept out of the list", () => {
  const list = new EventList();
  list.push("in", { type: "response.output_audio.delta", delta: "AAAAAAAA" }, 0);
  assert.equal(list.rows[0].event.delta, "(6 bytes)");
});

test("the list has an end", () => {
  const list = new EventList();
  for (let at = 0; at < 1_000; at += 1) list.push("in", { type: `t${at}` }, at);
  assert.deepEqual([list.rows.length, list.rows.at(-1).type], [400, "t999"]);
});

test("a filter asks for every word, in the type, the direction or the text", () => {
  const list = new EventList();
  list.push("in", { type: "error", error: { code: "bad_event" } }, 0);
  list.push("out", { type: "response.cancel" }, 0);
  assert.deepEqual(filtered(list.rows, "sent cancel").map(({ type }) => type), ["response.cancel"]);
  assert.deepEqual(filtered(list.rows, "BAD_event").map(({ type }) => type), ["error"]);
  assert.equal(filtered(list.rows, "  ").length, 2);
});

test("the gist of an event is what a reader looks for", () => {
  assert.equal(gist({ type: "error", error: { code: "bad_event", message: "…" } }), "bad_event");
  assert.equal(gist({ type: "response.done", response: { status: "cancelled", status_details: { reason: "barge_in" } } }), "barge_in");
  assert.equal(gist({ type: "response.output_audio_transcript.delta", delta: "Hi " }), "Hi ");
  assert.equal(gist({ type: "response.output_audio.delta", delta: "(6 bytes)" }), "");
  assert.equal(gist({ type: "playback.ack", played_ms: 0 }), "0 ms");
});
