// What a timeline document says.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  allMarks, clock, fileName, kept, lengthOf, place, readLink, saidAt, seqAt, shellWord, spanOf, ticks, timeOf, timeOfSeq, wordsOf, writeLink, zoomed,
} from "../../../gateway/web/timeline/model.js"; // prettier-ignore

const cut = {
  response: "r",
  created: 4500,
  text: "Once upon a time",
  sent: 4500,
  generated_ms: 6000,
  heard_ms: 1500,
  status: "cancelled",
  runs: [[0, 1500, 4500, 4500], [1500, 4500, null, 6000]],
  words: [[0, "Once "], [480, "upon "], [1120, "a "], [1760, "time"]],
  ref: "<1-46",
};
const doc = {
  length_ms: 9100,
  first_seq: 1,
  last_seq: 174,
  caller: [[0, 2000, ">1-2", ">1-11", 10]],
  marks: { speech: [{ at: 0, end: 2000, kind: "speech", text: "How is the weather?", ref: "<1-2" }], errors: [] },
  replies: [cut],
  reports: [{ at: 6000, played_ms: 1500, ref: "<1-128" }],
  written: [[0, 1, "1-0"], [200, 2, "1-2"], [6000, 128, "1-20"]],
  snapshots: [37],
};

test("a clock shows hours only where there are some", () => {
  assert.deepEqual([clock(0), clock(62_340), clock(3_723_450, 0), clock(-500, 1)], ["0:00.00", "1:02.34", "1:02:03", "-0:00.5"]);
});

test("what was heard of an answer lies where it was heard, and the rest after it", () => {
  assert.deepEqual([timeOf(cut, 480), timeOf(cut, 1760), timeOf(cut, 1760, true)], [4980, 6260, 6260]);
  assert.deepEqual(spanOf(cut), [4500, 10500]);
  assert.deepEqual(wordsOf(cut).map((word) => word.heard), [true, true, true, false]);
  assert.deepEqual(wordsOf(cut, true).map((word) => word.heard), [true, true, true, true]);
  assert.deepEqual([lengthOf(doc), lengthOf(doc, true)], [9100, 10500]);
});

test("the words of a moment are those that were heard by then", () => {
  assert.deepEqual(saidAt(doc, 5100), { caller: "", said: "Once upon", rest: "a" });
  assert.deepEqual(saidAt(doc, 1000), { caller: "How is the weather?", said: "", rest: "" });
  assert.equal(saidAt(doc, 8000).said, "");
  assert.equal(saidAt(doc, 8000, true).said, "Once upon a time");
});

test("every mark is in the list, by time, with its place in the log", () => {
  const marks = allMarks(doc);
  assert.deepEqual(marks.map((mark) => [mark.lane, mark.at]), [
    ["speech", 0], ["caller", 0], ["log", 200], ["replies", 4500], ["playback", 6000],
  ]);
  assert.equal(place(marks[3].ref).name, "seq 46");
  assert.equal(place(">2-0").name, "input 2-0");
  assert.equal(place(""), null);
});

test("a seq has a time and a time has a seq", () => {
  assert.deepEqual([timeOfSeq(doc, 1), timeOfSeq(doc, 127), timeOfSeq(doc, 128)], [0, 200, 6000]);
  assert.deepEqual([seqAt(doc, -1), seqAt(doc, 5999), seqAt(doc, 9000)], [1, 2, 128]);
});

test("a link says what is on the screen and is read as that", () => {
  const seen = { at: 5100, view: [0, 9100], seq: 44, other: "b c", generated: true };
  assert.equal(writeLink(seen), "#t=5.10&zoom=0.00-9.10&seq=44&with=b%20c&as=generated");
  assert.deepEqual(readLink(writeLink(seen)), seen);
  assert.deepEqual(readLink(""), {});
  assert.deepEqual(readLink("#seq=x&zoom=1"), {});
});

test("a view stays within the call", () => {
  assert.deepEqual(kept([-500, 500], 10_000), [0, 1000]);
  assert.deepEqual(kept([9_900, 10_900], 10_000), [9200, 10_200]);
  assert.deepEqual(kept([0, 1e9], 10_000), [0, 10_200]);
  assert.deepEqual(kept([500, 501], 10_000), [500, 600]);
  assert.deepEqual(zoomed([0, 8000], 0.5, 2000, 10_000), [1000, 5000]);
});

test("the ruler's lines are a good way apart", () => {
  assert.deepEqual(ticks([0, 10_000], 1000), { step: 1000, at: [0, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10_000] });
  assert.equal(ticks([0, 3_600_000], 1000).step, 600_000);
});

test("an id is one word of a command, whatever is in it", () => {
  assert.equal(shellWord("sess_01-A.b"), "sess_01-A.b");
  assert.equal(shellWord("x; rm -rf ~"), "'x; rm -rf ~'");
  assert.equal(shellWord("it's $(id)"), "'it'\\''s $(id)'");
  assert.equal(shellWord(""), "''");
});

test("a file has the name that the gateway gives it", () => {
  assert.equal(fileName("call-1", 0), "call-1-0.dxlog");
  assert.equal(fileName("日本 'x'", 2), "____x_-2.dxlog");
});
