// What is reported as played.

import assert from "node:assert/strict";
import { test } from "node:test";
import { PlaybackLedger } from "../../../gateway/web/talk/ledger.js";

const reported = (commands) => commands.map((each) => [each.response_id, each.played_ms]);

test("an answer is reported every half second, and at once when it was heard to its end", () => {
  const ledger = new PlaybackLedger();
  ledger.queued("r", "i", 1_000);
  ledger.heard("r", 100);
  assert.deepEqual(ledger.due(1_000), [
    { type: "playback.ack", response_id: "r", item_id: "i", played_ms: 100, committed_ms: 100 },
  ]);
  ledger.heard("r", 400);
  assert.deepEqual(ledger.due(1_300), []);
  assert.deepEqual(reported(ledger.due(1_500)), [["r", 400]]);
  ledger.over("r");
  ledger.heard("r", 1_000);
  assert.deepEqual(reported(ledger.due(1_510)), [["r", 1_000]]);
  assert.deepEqual(ledger.due(9_000), []);
});

test("nothing is reported that was not heard, and never more than was queued", () => {
  const ledger = new PlaybackLedger();
  ledger.queued("r", "i", 300);
  assert.deepEqual(ledger.due(5_000), []);
  ledger.heard("r", 900);
  assert.deepEqual(reported(ledger.due(6_000)), [["r", 300]]);
});

test("a cut answer is reported as far as it was heard, once and for all", () => {
  const ledger = new PlaybackLedger();
  ledger.queued("r", "i", 5_000);
  ledger.heard("r", 700);
  ledger.due(0);
  ledger.heard("r", 810.7);
  ledger.cut("r");
  ledger.heard("r", 2_000);
  assert.deepEqual(reported(ledger.due(10)), [["r", 810]]);
  assert.deepEqual(ledger.open, []);
});

test("answers that are still sounding are known", () => {
  const ledger = new PlaybackLedger();
  ledger.queued("a", "i", 100);
  ledger.queued("b", "j", 100);
  ledger.heard("a", 100);
  assert.deepEqual(ledger.open, ["b"]);
});
