// The client's side of a session without any I/O: what to say next, what is new, and what can be resumed.
//
// Feed every received event to `receive`; note what goes out with `say` and `sent`. Nothing here waits or sleeps.

import { errorOf, seqOf } from "./events.js";
import { Outbox } from "./outbox.js";

const FINAL_RESUME_CODES = new Set([
  "invalid_session_resume",
  "session_resume_expired",
  "unsupported_session_resume",
  "invalid_resume_token",
  "session_resume_conflict",
]);
const ENDINGS = new Set(["session.closed", "session.expired", "session.replaced"]);

// `phase`: opening, open, resuming, closing or ended; only ended is for good. `endReason` is set then.
export class Session {
  constructor(config) {
    this.phase = "opening";
    this.id = null;
    this.info = {};
    this.incarnation = null;
    this.resumeToken = null;
    this.lastSeq = 0;
    this.endReason = null;
    this.outbox = new Outbox();
    this._config = config;
    this._nextId = 0;
    this._idStem = crypto.randomUUID();
  }

  // The first message on a socket: opens the session, or takes it up after a lost one.
  firstCommand() {
    if (this.phase === "opening") return { type: "session.update", session: this._config };
    return {
      type: "session.resume",
      session_id: this.id,
      incarnation: this.incarnation,
      resume_token: this.resumeToken,
      last_received_server_event_seq: this.lastSeq,
    };
  }

  // Stamp a command and hold it until it is known to have arrived: `{eventId, message}`.
  say(command) {
    const eventId = `evt_${this._idStem}_${this._nextId++}`;
    const message = JSON.stringify({ ...command, event_id: eventId });
    this.outbox.add(eventId, message, { isProbe: command.type === "session.heartbeat" });
    if (command.type === "session.close" && this.phase !== "ended") this.phase = "closing";
    return { eventId, message };
  }

  // The event if it was not seen before, with the session moved along; `null` for a repeat of a replay.
  receive(event) {
    const seq = seqOf(event);
    if (seq !== null) {
      if (seq <= this.lastSeq) return null;
      this.lastSeq = seq;
    }
    if (event.type === "session.created" || event.type === "session.resumed") {
      this.id = event.session?.id ?? event.session_id ?? this.id;
      this.info = event.session ?? this.info;
      this.incarnation = event.incarnation ?? this.incarnation;
      this.resumeToken = event.resume_token ?? null;
      if (this.phase !== "closing") this.phase = "open";
    } else if (event.type === "session.updated") {
      this.info = event.session ?? this.info;
    } else if (event.type === "session.going_away") {
      this.resumeToken = event.resume_token ?? this.resumeToken;
    } else if (event.type === "session.resync_required") {
      // What a resume would need is lost; the session itself goes on while this socket lasts.
      if (this.phase === "resuming") this._end("resync_required");
      this.resumeToken = null;
    } else if (event.type === "session.heartbeat_ack") {
      this.outbox.probeAnswered();
    } else if (ENDINGS.has(event.type)) {
      this._end(event.reason ?? event.type);
    } else if (event.type === "error" && this._isFinal(errorOf(event))) {
      this._end(errorOf(event).code ?? errorOf(event).message);
    }
    return event;
  }

  // What has to be said again after `session.resumed`, oldest first.
  undelivered(resumed) {
    if ("last_client_event_id" in resumed) this.outbox.arrived(resumed.last_client_event_id);
    else this.outbox.forgetSent();
    return this.outbox.messages();
  }

  // The socket is gone. True when a resume may bring the session back; else it has ended, or was never there.
  connectionLost() {
    if (this.phase === "ended" || this.phase === "opening") return false;
    if (this.phase === "closing" || this.resumeToken === null || this.id === null) {
      this._end(this.phase === "closing" ? "session_close" : "connection_lost");
      return false;
    }
    this.phase = "resuming";
    return true;
  }

  // No try succeeded.
  giveUp(reason) {
    if (this.phase !== "ended") this._end(reason);
  }

  _isFinal(error) {
    // An opening that was refused for good, or a resume that no other try can bring.
    if (this.phase === "opening") return error.retryAfterMs === null;
    return this.phase === "resuming" && FINAL_RESUME_CODES.has(error.code);
  }

  _end(reason) {
    this.phase = "ended";
    this.endReason = reason;
  }
}
