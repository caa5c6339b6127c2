// What the page shows of the events.

import assert from "node:assert/strict";
import { test } from "node:test";
import { EMPTY, fold, heard, heardCharacters, typed } from "../../../gateway/web/talk/conversation.js";

const answer = (state, ...deltas) =>
  deltas.reduce(
    (so, [delta, ms], at) => {
      const marks = [{ text_chars: deltas.slice(0, at + 1).join("").replace(/[\d,]+/g, "").length, audio_end_ms: ms }];
      const sound = { type: "response.output_audio.delta", response_id: "r", delta: "", metadata: { audio_text_marks: marks, playback: { generated_ms: ms } } };
      return fold(fold(so, sound), { type: "response.output_audio_transcript.delta", response_id: "r", delta });
    },
    fold(state, { type: "response.created", response_id: "r" }),
  );
const done = (status, reason) => ({
  type: "response.done",
  response_id: "r",
  response: { status, status_details: reason ? { reason } : null },
});

test("a caller's turn opens with their voice and is settled by the transcript", () => {
  let state = fold(EMPTY, { type: "input_audio_buffer.speech_started", item_id: "i" });
  assert.deepEqual([state.isCallerSpeaking, state.turns[0].state], [true, "open"]);
  state = fold(state, { type: "input_audio_buffer.speech_stopped", item_id: "i" });
  state = fold(state, { type: "conversation.item.added", item: { id: "i", role: "user", content: [{ transcript: "Hi." }] } });
  assert.deepEqual(state.turns.map(({ who, text, state: how }) => [who, text, how]), [["caller", "Hi.", "done"]]);
});

test("words that come bit by bit give way to the whole transcript", () => {
  let state = fold(EMPTY, { type: "input_audio_buffer.speech_started", item_id: "i" });
  state = fold(state, { type: "conversation.item.input_audio_transcription.delta", item_id: "i", delta: "what is" });
  assert.equal(state.turns[0].text, "what is");
  state = fold(state, { type: "conversation.item.input_audio_transcription.completed", item_id: "i", transcript: "What's up?" });
  assert.equal(state.turns[0].text, "What's up?");
});

test("a noise that came to nothing leaves no trace", () => {
  let state = fold(EMPTY, { type: "input_audio_buffer.speech_started", item_id: "i" });
  state = fold(state, { type: "input_audio_buffer.speech_started", item_id: "j" });
  assert.deepEqual(state.turns.map(({ key }) => key), ["j"]);
});

test("an answer grows by its words and ends as it ended", () => {
  const state = fold(answer(EMPTY, ["Hello ", 500], ["you.", 900]), done("completed"));
  assert.deepEqual([state.turns[0].text, state.turns[0].state, state.turns[0].endMs], ["Hello you.", "done", 900]);
  assert.equal(state.answering, null);
});

test("an answer that is cut says why", () => {
  const state = fold(answer(EMPTY, ["Hello ", 500]), done("cancelled", "barge_in"));
  assert.deepEqual([state.turns[0].state, state.turns[0].reason], ["interrupted", "barge_in"]);
});

test("an answer of which nothing came is not shown", () => {
  const state = fold(fold(EMPTY, { type: "response.created", response_id: "r" }), done("completed"));
  assert.deepEqual(state.turns, []);
});

test("heard text follows the sound, in whole words", () => {
  const state = answer(EMPTY, ["Hello ", 500], ["wonderful you.", 1_500]);
  const at = (ms) => {
    const [turn] = heard(state, "r", ms).turns;
    return turn.text.slice(0, heardCharacters(turn));
  };
  assert.equal(at(0.1), "");
  assert.equal(at(500), "Hello ");
  assert.equal(at(700), "Hello wonderful");
  assert.equal(at(1_500), "Hello wonderful you.");
});

test("what was heard never becomes less, and a state that did not change is the same one", () => {
  const state = heard(answer(EMPTY, ["Hello ", 500]), "r", 400);
  assert.equal(heard(state, "r", 300), state);
  assert.equal(fold(state, { type: "rate_limits.updated" }), state);
});

test("a written answer counts as read", () => {
  const state = fold(EMPTY, { type: "response.output_text.delta", response_id: "r", delta: "Hello" });
  assert.equal(heardCharacters(state.turns[0]), 5);
});

test("what was typed stands in its place once, whatever the server says of it", () => {
  let state = typed(EMPTY, "i", "Hello");
  state = fold(state, { type: "conversation.item.added", item: { id: "i", role: "user", content: [{ text: "Hello" }] } });
  assert.deepEqual([state.turns.length, state.turns[0].isTyped], [1, true]);
});

test("a tool call is shown with its arguments", () => {
  const item = { type: "function_call", id: "f", name: "weather", arguments: "" };
  let state = fold(EMPTY, { type: "response.output_item.added", response_id: "r", item });
  state = fold(state, { type: "response.function_call_arguments.done", item_id: "f", arguments: '{"city":"Rome"}' });
  assert.deepEqual([state.turns[0].name, state.turns[0].text], ["weather", '{"city":"Rome"}']);
});
