// The client's side of a session: what it says first, what it takes, and when it is over.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../../gateway/web/talk/session.js";

const CREATED = { type: "session.created", session: { id: "s1" }, incarnation: 2, resume_token: "t1" };

function opened() {
  const session = new Session({ model: "echo" });
  session.receive(CREATED);
  return session;
}

test("the first command opens the session with its settings", () => {
  assert.deepEqual(new Session({ model: "echo" }).firstCommand(), { type: "session.update", session: { model: "echo" } });
});

test("after a lost socket the first command resumes from the last event that came", () => {
  const session = opened();
  session.receive({ type: "response.created", server_event_seq: 7 });
  assert.equal(session.connectionLost(), true);
  assert.deepEqual(session.firstCommand(), {
    type: "session.resume",
    session_id: "s1",
    incarnation: 2,
    resume_token: "t1",
    last_received_server_event_seq: 7,
  });
});

test("an event that was seen before is dropped, one without a number never is", () => {
  const session = opened();
  assert.notEqual(session.receive({ type: "a", server_event_seq: 3 }), null);
  assert.equal(session.receive({ type: "a", server_event_seq: 3 }), null);
  assert.equal(session.receive({ type: "a", server_event_seq: 2 }), null);
  assert.notEqual(session.receive({ type: "session.durable" }), null);
});

test("each resume turns the token, and a gateway that goes away may bring a new one", () => {
  const session = opened();
  session.receive({ type: "session.resumed", session_id: "s1", resume_token: "t2" });
  assert.equal(session.resumeToken, "t2");
  session.receive({ type: "session.going_away", resume_token: "t3" });
  assert.equal(session.resumeToken, "t3");
});

test("what had not arrived is said again in order, what had is not", () => {
  const session = opened();
  const said = ["a", "b", "c"].map((type) => session.say({ type }));
  said.slice(0, 2).forEach(({ eventId }) => session.outbox.sent(eventId));
  const again = session.undelivered({ type: "session.resumed", last_client_event_id: said[0].eventId });
  assert.deepEqual(again.map(({ message }) => JSON.parse(message).type), ["b", "c"]);
});

test("a server that cannot tell what arrived gets only what never went out", () => {
  const session = opened();
  const sent = session.say({ type: "sent" });
  session.outbox.sent(sent.eventId);
  session.say({ type: "kept" });
  const again = session.undelivered({ type: "session.resumed" });
  assert.deepEqual(again.map(({ message }) => JSON.parse(message).type), ["kept"]);
});

test("a session without a token ends with its socket", () => {
  const session = new Session({});
  session.receive({ ...CREATED, resume_token: null });
  assert.equal(session.connectionLost(), false);
  assert.deepEqual([session.phase, session.endReason], ["ended", "connection_lost"]);
});

test("a session that was closed on purpose ends without complaint when the socket goes", () => {
  const session = opened();
  session.say({ type: "session.close" });
  assert.equal(session.connectionLost(), false);
  assert.equal(session.endReason, "session_close");
});

for (const code of ["invalid_resume_token", "session_resume_expired", "session_resume_conflict"]) {
  test(`a resume refused with ${code} is not tried again`, () => {
    const session = opened();
    session.connectionLost();
    session.receive({ type: "error", error: "no", code });
    assert.deepEqual([session.phase, session.endReason], ["ended", code]);
  });
}

test("a resume that found everybody busy may be tried again", () => {
  const session = opened();
  session.connectionLost();
  session.receive({ type: "error", error: { code: "duplex_session_busy", retry_after_ms: 900 } });
  assert.equal(session.phase, "resuming");
});

test("an error in an open session ends nothing", () => {
  const session = opened();
  session.receive({ type: "error", error: { code: "bad_event" }, server_event_seq: 1 });
  assert.equal(session.phase, "open");
});

test("an opening that is refused ends with the reason", () => {
  const session = new Session({});
  session.receive({ type: "error", error: { code: "ref_audio_required" } });
  assert.deepEqual([session.phase, session.endReason], ["ended", "ref_audio_required"]);
});

test("a gap ends a resume, but not a session that still has its socket", () => {
  const live = opened();
  live.receive({ type: "session.resync_required" });
  assert.deepEqual([live.phase, live.resumeToken], ["open", null]);
  const away = opened();
  away.connectionLost();
  away.receive({ type: "session.resync_required" });
  assert.equal(away.phase, "ended");
});
