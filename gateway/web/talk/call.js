// One call: the session, the microphone, the loudspeaker and what the page shows of them.

import { Connection } from "./connection.js";
import { EMPTY, fold, heard, typed } from "./conversation.js";
import { EventList } from "./event-list.js";
import { errorOf, responseIdOf, withoutSound } from "./events.js";
import { LatencyMeter, VoiceGate } from "./latency.js";
import { PlaybackLedger } from "./ledger.js";
import { Levels } from "./levels.js";
import { openMicrophone } from "./microphone.js";
import { presetOf, sessionConfig } from "./presets.js";
import { decodePcm16, encodeSamples } from "./samples.js";
import { Session } from "./session.js";
import { Speaker } from "./speaker.js";

const LEVEL_MS = 20;
// Refusals that only say that somebody else was faster: the answer was over already.
const HARMLESS = new Set(["response_not_active"]);

// `urls`: gateways of one deployment. `options`: model, voice, instructions, reference, useMicrophone, deviceId.
// `changed()` is called whenever `snapshot` differs; it may come many times in one frame.
export class Call {
  constructor({ urls, options, changed }) {
    this.callerLevels = new Levels();
    this.assistantLevels = new Levels();
    this.events = new EventList();
    this.latency = new LatencyMeter();
    this.isMuted = false;
    this.notice = null;
    this._options = options;
    this._preset = presetOf(options.model);
    this._changed = changed;
    this._conversation = EMPTY;
    this._gate = new VoiceGate();
    this._ledger = new PlaybackLedger();
    this._sentMs = 0;
    this._sounding = null;
    this._cut = new Set();
    this._session = new Session(sessionConfig(options.model, options));
    this._connection = new Connection({
      urls,
      session: this._session,
      heard: (event) => this._hear(event),
      changed: () => this._phaseChanged(),
    });
  }

  // Take hold of the devices, then open the session. Rejects when the microphone cannot be had.
  async start() {
    this._context = new AudioContext({ latencyHint: "interactive" });
    await this._context.resume();
    this._speaker = await Speaker.open(this._context, (report) => this._played(report));
    if (this._options.useMicrophone) {
      this._microphone = await openMicrophone(this._context, {
        rateHz: this._preset.input.rateHz,
        chunkMs: this._preset.chunkMs,
        deviceId: this._options.deviceId,
        heard: (chunk) => this._speak(chunk),
        lost: () => this._complain({ code: null, message: "The microphone is gone. You can go on by typing." }),
      });
    }
    this._connection.open();
    this._changed();
  }

  // What the page shows, as one plain value.
  get snapshot() {
    const { phase, id, endReason, info } = this._session;
    return {
      phase,
      endReason,
      sessionId: id,
      model: info.model ?? this._options.model,
      gateway: this._connection.url,
      resumes: this._connection.resumes,
      conversation: this._conversation,
      isSounding: this._sounding !== null,
      isMuted: this.isMuted,
      hasMicrophone: Boolean(this._microphone),
      latencyMs: this.latency.last,
      medianMs: this.latency.median,
      latencies: this.latency.values,
      underruns: this._speaker?.underruns ?? 0,
      rows: this.events.rows,
      notice: this.notice,
    };
  }

  // -- what the person does --------------------------------------------------------------------------------------

  setMuted(isMuted) {
    this.isMuted = isMuted;
    this._microphone?.setMuted(isMuted);
    this._changed();
  }

  // Stop the answer: silence here first, then the word to the server, with what was heard of it.
  interrupt() {
    const responseId = this._sounding ?? this._conversation.answering;
    if (responseId === null) return;
    this._silence(responseId);
    this._say({ type: "response.cancel", response_id: responseId });
  }

  // Say something in writing and ask for an answer.
  type(text) {
    if (this._sounding !== null || this._conversation.answering !== null) this.interrupt();
    const id = `item_${crypto.randomUUID().replaceAll("-", "")}`;
    const item = { id, type: "message", role: "user", content: [{ type: "input_text", text }] };
    this._conversation = typed(this._conversation, id, text);
    this.latency.turnEnded(performance.now());
    this._say({ type: "conversation.item.create", item });
    this._say({ type: "response.create" });
  }

  dismissNotice() {
    this.notice = null;
    this._changed();
  }

  // End the session for good.
  end() {
    if (this._session.phase === "opening") this._connection.abandon("session_close");
    else this._say({ type: "session.close" });
    this._releaseDevices();
    this._changed();
  }

  // -- caller's sound --------------------------------------------------------------------------------------------

  _speak({ samples, levels, endedAtMs }) {
    levels.forEach((level, at) => this.callerLevels.put(level, endedAtMs - (levels.length - 1 - at) * LEVEL_MS));
    this._gate.push(levels, endedAtMs);
    if (this._session.phase === "opening" || this._session.phase === "ended") return;
    const { encoding, rateHz } = this._preset.input;
    const durationMs = (samples.length * 1000) / rateHz;
    this._sentMs += durationMs;
    this._say({
      type: "input_audio_buffer.append",
      audio: encodeSamples(samples, encoding),
      format: encoding,
      sample_rate_hz: rateHz,
      duration_ms: Math.round(durationMs),
      audio_end_ms: Math.round(this._sentMs),
    });
  }

  // -- the assistant's sound -------------------------------------------------------------------------------------

  _queue(event) {
    if (this._cut.has(event.response_id) || !this._speaker) return;
    const samples = decodePcm16(event.delta);
    const endMs = this._speaker.play(event.response_id, samples, event.sample_rate_hz ?? this._preset.outputRateHz);
    this._ledger.queued(event.response_id, event.item_id, endMs);
  }

  _played({ position, queuedMs, peak }) {
    if (!this._speaker) return;
    const now = performance.now();
    this.assistantLevels.put(peak, now);
    this.assistantLevels.put(peak, now - LEVEL_MS);
    if (position && !this._cut.has(position.id)) {
      const { id, ms } = position;
      if (this._ledger.heardMs(id) < ms) this.latency.soundBegan(id, now);
      this._ledger.heard(id, ms);
      const before = this._conversation;
      this._conversation = heard(before, id, ms);
      const sounding = queuedMs > 0 || this._ledger.open.includes(id) ? id : null;
      if (before !== this._conversation || sounding !== this._sounding) this._changed();
      this._sounding = sounding;
    }
    this._report(now);
  }

  _report(now) {
    for (const command of this._ledger.due(now)) this._say(command);
  }

  // Nothing more of this answer is to be heard.
  _silence(responseId) {
    if (this._cut.has(responseId)) return;
    this._cut.add(responseId);
    this._speaker?.flush();
    this._ledger.cut(responseId);
    this._sounding = null;
    this._report(performance.now());
  }

  // -- the session -----------------------------------------------------------------------------------------------

  _say(command) {
    if (this._session.phase === "ended") return;
    this.events.push("out", withoutSound(command), performance.now());
    this._connection.send(command);
    this._changed();
  }

  _hear(event) {
    this.events.push("in", event, performance.now());
    this._conversation = fold(this._conversation, event);
    const responseId = responseIdOf(event);
    if (event.type === "response.output_audio.delta") this._queue(event);
    else if (event.type === "input_audio_buffer.speech_stopped") this._turnEnded();
    else if (event.type === "output_audio_buffer.cleared" && responseId) this._silence(responseId);
    else if (event.type === "response.done") this._answerEnded(responseId, event.response.status);
    else if (event.type === "error") this._complain(errorOf(event));
    this._changed();
  }

  _turnEnded() {
    // Loudness knows better than the detector, whose end includes the silence it waited for.
    this.latency.turnEnded(this._gate.lastVoiceAtMs ?? performance.now());
  }

  _answerEnded(responseId, status) {
    if (status === "completed") {
      this._speaker?.finish(responseId);
      this._ledger.over(responseId);
    } else {
      this._silence(responseId);
    }
  }

  _complain({ code, message }) {
    if (HARMLESS.has(code)) return;
    this.notice = { code, message };
    this._changed();
  }

  _phaseChanged() {
    if (this._session.phase === "ended") this._releaseDevices();
    this._changed();
  }

  _releaseDevices() {
    this._microphone?.close();
    this._speaker?.close();
    this._context?.close();
    this._microphone = this._speaker = this._context = null;
    this._sounding = null;
  }
}
