// What is held until it is known to have arrived.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Outbox } from "../../../gateway/web/talk/outbox.js";

const ids = (outbox) => outbox.messages().map(({ eventId }) => eventId);

test("everything up to the last that arrived is let go", () => {
  const outbox = new Outbox();
  for (const id of ["a", "b", "c"]) outbox.add(id, id);
  outbox.arrived("b");
  assert.deepEqual(ids(outbox), ["c"]);
});

test("an id that is not held proves nothing", () => {
  const outbox = new Outbox();
  outbox.add("a", "a");
  outbox.arrived("z");
  outbox.arrived(null);
  assert.deepEqual(ids(outbox), ["a"]);
});

test("an answered probe proves all before it, but not one that never went out", () => {
  const outbox = new Outbox();
  outbox.add("a", "a");
  outbox.add("probe", "p", { isProbe: true });
  outbox.add("b", "b");
  outbox.probeAnswered();
  assert.deepEqual(ids(outbox), ["a", "probe", "b"]);
  outbox.sent("probe");
  outbox.probeAnswered();
  assert.deepEqual(ids(outbox), ["b"]);
});

test("beyond its size the oldest go and are counted, the newest never does", () => {
  const outbox = new Outbox(10);
  for (const id of ["a", "b", "c"]) outbox.add(id, "12345");
  assert.deepEqual(ids(outbox), ["b", "c"]);
  assert.equal(outbox.forgotten, 1);
  outbox.add("large", "x".repeat(50));
  assert.deepEqual(ids(outbox), ["large"]);
});

test("what went out can be forgotten, what did not stays within the same size", () => {
  const outbox = new Outbox(10);
  outbox.add("a", "12345");
  outbox.add("b", "12345");
  outbox.sent("a");
  outbox.forgetSent();
  assert.deepEqual(ids(outbox), ["b"]);
  outbox.add("c", "12345");
  assert.deepEqual(ids(outbox), ["b", "c"]);
});
