// Sockets that come and go under one session, on a clock that the test moves.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Connection, TIMING } from "../../../gateway/web/talk/connection.js";
import { Session } from "../../../gateway/web/talk/session.js";

class Stage {
  constructor(urls = ["ws://a/", "ws://b/"]) {
    this.nowMs = 0;
    this.timers = [];
    this.sockets = [];
    this.heard = [];
    this.session = new Session({ model: "echo" });
    this.connection = new Connection({
      urls,
      session: this.session,
      heard: (event) => this.heard.push(event.type),
      changed: () => {},
      system: {
        now: () => this.nowMs,
        random: () => 0.5,
        after: (ms, run) => {
          const timer = { at: this.nowMs + ms, run };
          this.timers.push(timer);
          return () => this.timers.splice(this.timers.indexOf(timer) >>> 0, 1);
        },
        open: (url) => {
          const socket = { url, sent: [], isClosed: false, send: (text) => socket.sent.push(JSON.parse(text)) };
          socket.close = () => {
            socket.isClosed = true;
          };
          this.sockets.push(socket);
          return socket;
        },
      },
    });
  }

  // Let `ms` pass, timers in their order.
  pass(ms) {
    const until = this.nowMs + ms;
    for (;;) {
      const next = this.timers.filter((timer) => timer.at <= until).sort((left, right) => left.at - right.at)[0];
      if (!next) break;
      this.timers.splice(this.timers.indexOf(next), 1);
      this.nowMs = next.at;
      next.run();
    }
    this.nowMs = until;
  }

  get socket() {
    return this.sockets.at(-1);
  }

  say(event) {
    this.socket.onmessage({ data: JSON.stringify(event) });
  }

  open() {
    this.connection.open();
    this.socket.onopen();
    this.say({ type: "session.created", session: { id: "s1" }, incarnation: 0, resume_token: "t1" });
    return this;
  }

  drop() {
    this.socket.onclose();
    this.pass(1_000);
  }
}

const types = (socket) => socket.sent.map((each) => each.type);

test("a lost session is resumed at the next gateway, and what is said meanwhile is sent there", () => {
  const stage = new Stage().open();
  stage.connection.send({ type: "first" });
  const { event_id: first } = stage.socket.sent.at(-1);
  stage.drop();
  stage.connection.send({ type: "second" });
  assert.equal(stage.socket.url, "ws://b/");
  stage.socket.onopen();
  assert.deepEqual(types(stage.socket), ["session.resume"]);
  stage.say({ type: "session.resumed", session_id: "s1", resume_token: "t2", last_client_event_id: first });
  assert.deepEqual(types(stage.socket), ["session.resume", "second"]);
  assert.equal(stage.connection.resumes, 1);
});

test("without proof of arrival nothing is said twice", () => {
  const stage = new Stage().open();
  stage.connection.send({ type: "first" });
  stage.drop();
  stage.socket.onopen();
  stage.say({ type: "session.resumed", session_id: "s1", resume_token: "t2" });
  assert.deepEqual(types(stage.socket), ["session.resume"]);
});

test("opening goes through the gateways once, in order, then gives up", () => {
  const stage = new Stage();
  stage.connection.open();
  stage.drop();
  assert.equal(stage.socket.url, "ws://b/");
  stage.drop();
  assert.deepEqual([stage.sockets.length, stage.session.endReason], [2, "no_gateway"]);
});

test("where every gateway is full, that is the reason", () => {
  const stage = new Stage();
  stage.connection.open();
  for (let count = 0; count < 2; count += 1) {
    stage.socket.onopen();
    stage.say({ type: "error", error: { code: "duplex_session_busy", retry_after_ms: 1_000 } });
    stage.drop();
  }
  assert.deepEqual([stage.sockets.length, stage.session.endReason], [2, "duplex_session_busy"]);
});

test("resuming gives up after its attempts", () => {
  const stage = new Stage().open();
  for (let count = 0; count < TIMING.attempts + 1; count += 1) {
    stage.socket.onclose();
    stage.pass(TIMING.backoffMs[1]);
  }
  assert.deepEqual([stage.session.phase, stage.session.endReason], ["ended", "connection_lost"]);
  assert.equal(stage.sockets.length, 1 + TIMING.attempts);
});

test("a gateway that says when to come again is taken at its word", () => {
  const stage = new Stage().open();
  stage.drop();
  stage.socket.onopen();
  stage.say({ type: "error", error: { code: "duplex_session_busy", retry_after_ms: 2_000 } });
  stage.socket.onclose();
  stage.pass(1_900);
  assert.equal(stage.sockets.length, 2);
  stage.pass(400);
  assert.equal(stage.sockets.length, 3);
});

test("a burst of events is acknowledged once, with the last of them", () => {
  const stage = new Stage().open();
  for (const seq of [1, 2, 3]) stage.say({ type: "x", server_event_seq: seq });
  stage.pass(TIMING.acknowledgeMs);
  const acks = stage.socket.sent.filter((each) => each.type === "session.event_ack");
  assert.deepEqual(acks, [{ type: "session.event_ack", server_event_seq: 3 }]);
});

test("a gateway that falls silent is left without waiting for its socket", () => {
  const stage = new Stage().open();
  stage.pass(TIMING.silenceMs + 2 * TIMING.heartbeatMs + 1_000);
  assert.equal(stage.sockets[0].isClosed, true);
  assert.equal(stage.session.phase, "resuming");
  assert.equal(stage.sockets.length, 2);
});

test("a gateway that answers heartbeats is kept", () => {
  const stage = new Stage().open();
  for (let count = 0; count < 10; count += 1) {
    stage.pass(TIMING.heartbeatMs);
    stage.say({ type: "session.heartbeat_ack" });
  }
  assert.equal(stage.sockets.length, 1);
});

test("a socket that was given up cannot say anything any more", () => {
  const stage = new Stage().open();
  const old = stage.socket;
  stage.drop();
  old.onmessage({ data: JSON.stringify({ type: "late", server_event_seq: 9 }) });
  assert.equal(stage.heard.includes("late"), false);
});

test("after the end nothing is sent and no socket is opened", () => {
  const stage = new Stage().open();
  stage.say({ type: "session.closed", reason: "session_close", server_event_seq: 1 });
  stage.connection.send({ type: "x" });
  stage.pass(60_000);
  assert.equal(types(stage.socket).includes("x"), false);
  assert.deepEqual([stage.sockets.length, stage.socket.isClosed], [1, true]);
});
