// Keeps one session connected: the handshake, the acknowledgements, and the resume at the next gateway.

import { errorOf, parseEvent, seqOf } from "./events.js";

export const TIMING = {
  handshakeMs: 10_000,
  heartbeatMs: 5_000,
  // A gateway that says nothing at all for this long, heartbeats not answered, is gone.
  silenceMs: 12_000,
  acknowledgeMs: 250,
  attempts: 12,
  backoffMs: [150, 4_000],
};

// The system's clock and timers; tests bring their own.
const SYSTEM = {
  now: () => performance.now(),
  after: (ms, run) => {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
  random: Math.random,
  open: (url) => new WebSocket(url),
};

// `urls` are gateways of one deployment, tried in order. `heard(event)` gets every new event once, in order;
// `changed()` is called when the session's phase or the gateway may have changed.
export class Connection {
  constructor({ urls, session, heard, changed, system = SYSTEM, timing = TIMING }) {
    this.resumes = 0;
    this._urls = urls;
    this._session = session;
    this._heard = heard;
    this._changed = changed;
    this._system = system;
    this._timing = timing;
    this._at = 0;
    this._tried = 0;
    this._attempt = 0;
    this._toldMs = 0;
    this._refusal = null;
    this._socket = null;
    this._isReady = false;
    this._stopDial = () => {};
    this._stopBeat = () => {};
    this._stopAcknowledge = null;
    this._lastHeardAt = 0;
  }

  get url() {
    return this._urls[this._at];
  }

  open() {
    this._dial();
  }

  // Say something. While no socket can take it, it waits for the resume; in an ended session it is dropped.
  send(command) {
    if (this._session.phase === "ended") return;
    const { eventId, message } = this._session.say(command);
    if (this._isReady) this._transmit(eventId, message);
  }

  // Drop the socket without a word; the session waits on the server for its grace period.
  abandon(reason = "left") {
    this._session.giveUp(reason);
    this._finish();
  }

  _transmit(eventId, message) {
    this._socket.send(message);
    this._session.outbox.sent(eventId);
  }

  // -- sockets ---------------------------------------------------------------------------------------------------

  _dial() {
    const socket = this._system.open(this.url);
    this._socket = socket;
    this._isReady = false;
    this._stopDial = this._system.after(this._timing.handshakeMs, () => this._drop(socket));
    socket.onopen = () => socket.send(JSON.stringify(this._session.firstCommand()));
    socket.onmessage = ({ data }) => this._receive(socket, data);
    socket.onclose = () => this._lost(socket);
    socket.onerror = () => {};
  }

  // Part with a socket now: the close event of a dead peer can take a minute.
  _drop(socket) {
    socket.onclose = null;
    socket.close();
    this._lost(socket);
  }

  _receive(socket, data) {
    if (socket !== this._socket) return;
    this._lastHeardAt = this._system.now();
    const before = this._session.phase;
    const raw = parseEvent(data);
    const event = raw && this._session.receive(raw);
    if (!event) return;
    if (event.type === "error" && before === "resuming") this._toldMs = errorOf(event).retryAfterMs ?? 0;
    if (event.type === "error" && before === "opening") this._refusal = errorOf(event).code;
    const isWelcome = event.type === "session.created" || event.type === "session.resumed";
    if (isWelcome) this._settle(event);
    this._heard(event);
    if (seqOf(event) !== null) this._acknowledgeSoon();
    if (this._session.phase === "ended") this._finish();
    if (isWelcome || this._session.phase !== before) this._changed();
  }

  _settle(welcome) {
    this._stopDial();
    this._isReady = true;
    this._attempt = this._tried = this._toldMs = 0;
    const missing =
      welcome.type === "session.resumed" ? this._session.undelivered(welcome) : this._session.outbox.messages();
    if (welcome.type === "session.resumed") this.resumes += 1;
    for (const { eventId, message } of missing) this._transmit(eventId, message);
    this._beat();
  }

  _lost(socket) {
    if (socket !== this._socket) return;
    this._socket = null;
    this._isReady = false;
    this._stopDial();
    this._stopBeat();
    this._stopAcknowledge?.();
    this._stopAcknowledge = null;
    if (this._session.phase === "opening") this._tryNextToOpen();
    else if (this._session.connectionLost()) this._tryToResume();
    else this._finish();
    this._changed();
  }

  _tryNextToOpen() {
    this._tried += 1;
    if (this._tried >= this._urls.length) {
      this._session.giveUp(this._refusal ?? "no_gateway");
      return this._finish();
    }
    this._at = (this._at + 1) % this._urls.length;
    this._stopDial = this._system.after(0, () => this._dial());
  }

  _tryToResume() {
    if (this._attempt >= this._timing.attempts) {
      this._session.giveUp("connection_lost");
      return this._finish();
    }
    this._at = (this._at + 1) % this._urls.length;
    // Drawn, so that the clients of a lost gateway do not come back in one wave.
    const [low, high] = this._timing.backoffMs;
    const ceiling = Math.min(high, low * 2 ** Math.floor(this._attempt / this._urls.length));
    const waitMs = this._toldMs + low / 2 + this._system.random() * (ceiling - low / 2);
    this._attempt += 1;
    this._toldMs = 0;
    this._stopDial = this._system.after(waitMs, () => this._dial());
  }

  _finish() {
    this._stopDial();
    this._stopBeat();
    this._stopAcknowledge?.();
    const socket = this._socket;
    this._socket = null;
    this._isReady = false;
    if (socket) {
      socket.onclose = null;
      socket.close();
    }
  }

  // -- what keeps it alive ---------------------------------------------------------------------------------------

  _beat() {
    this._stopBeat();
    this._lastHeardAt = this._system.now();
    this._stopBeat = this._system.after(this._timing.heartbeatMs, () => this._checkPulse());
  }

  _checkPulse() {
    const silentMs = this._system.now() - this._lastHeardAt;
    if (silentMs > this._timing.silenceMs) return this._drop(this._socket);
    this.send({ type: "session.heartbeat" });
    this._stopBeat = this._system.after(this._timing.heartbeatMs, () => this._checkPulse());
  }

  // One acknowledgement covers all before it, so a burst of events needs one.
  _acknowledgeSoon() {
    if (this._stopAcknowledge) return;
    this._stopAcknowledge = this._system.after(this._timing.acknowledgeMs, () => {
      this._stopAcknowledge = null;
      if (!this._isReady) return;
      this._socket.send(JSON.stringify({ type: "session.event_ack", server_event_seq: this._session.lastSeq }));
    });
  }
}
