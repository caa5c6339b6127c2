// The loudspeaker: plays answers one after the other and tells what of them was really heard.

import { Resampler } from "./resampler.js";

const WORKLET = new URL("./playback-worklet.js", import.meta.url);
const DEFAULT_RATE_HZ = 24_000;

export class Speaker {
  // `played({position: {id, ms} | null, queuedMs, peak})` comes every 40 ms, when that moment has left the device.
  static async open(context, played) {
    await context.audioWorklet.addModule(WORKLET);
    const worklet = new AudioWorkletNode(context, "duplex-playback", { numberOfInputs: 0, outputChannelCount: [1] });
    worklet.connect(context.destination);
    return new Speaker(context, worklet, played);
  }

  constructor(context, worklet, played) {
    this.underruns = 0;
    this._context = context;
    this._worklet = worklet;
    this._answers = new Map();
    worklet.port.onmessage = ({ data }) => {
      this.underruns = data.underruns;
      setTimeout(() => played(data), this.latencyMs);
    };
  }

  // How long a sample is under way from the audio thread to the ear.
  get latencyMs() {
    return ((this._context.outputLatency || 0) + (this._context.baseLatency || 0)) * 1000;
  }

  // Play `samples` after what is queued already; returns where in its answer the piece ends, in milliseconds.
  play(id, samples, rateHz = DEFAULT_RATE_HZ) {
    const answer = this._answerOf(id, rateHz);
    const startMs = answer.endMs;
    answer.count += samples.length;
    answer.endMs = (answer.count * 1000) / answer.rateHz;
    this._push(id, answer.resampler.push(samples), startMs, answer.endMs);
    return answer.endMs;
  }

  // Nothing more comes of the answer `id`.
  finish(id) {
    const answer = this._answers.get(id);
    if (!answer) return;
    this._push(id, answer.resampler.flush(), answer.endMs, answer.endMs);
    this._worklet.port.postMessage({ do: "finish", id });
    this._answers.delete(id);
  }

  // Fall silent and forget what was not played.
  flush() {
    this._worklet.port.postMessage({ do: "flush" });
    this._answers.clear();
  }

  close() {
    this._worklet.port.onmessage = null;
    this._worklet.disconnect();
  }

  _answerOf(id, rateHz) {
    if (!this._answers.has(id)) {
      const resampler = new Resampler(rateHz, this._context.sampleRate);
      this._answers.set(id, { resampler, rateHz, count: 0, endMs: 0 });
    }
    return this._answers.get(id);
  }

  _push(id, samples, startMs, endMs) {
    if (samples.length === 0 && startMs === endMs) return;
    this._worklet.port.postMessage({ do: "push", id, samples, startMs, endMs });
  }
}
