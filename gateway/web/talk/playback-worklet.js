// The loudspeaker's end of playback, on the audio thread.

import { PlaybackQueue } from "./playback-queue.js";

const REPORT_S = 0.04;

class Playback extends AudioWorkletProcessor {
  constructor() {
    super();
    this._queue = new PlaybackQueue(sampleRate);
    this._peak = 0;
    this._framesSinceReport = 0;
    this.port.onmessage = ({ data }) => {
      if (data.do === "push") this._queue.push(data);
      else if (data.do === "finish") this._queue.finish(data.id);
      else if (data.do === "flush") this._queue.flush();
    };
  }

  process(inputs, outputs) {
    const out = outputs[0][0];
    this._queue.render(out);
    for (const sample of out) this._peak = Math.max(this._peak, Math.abs(sample));
    for (const other of outputs[0].slice(1)) other.set(out);
    this._framesSinceReport += out.length;
    if (this._framesSinceReport >= REPORT_S * sampleRate) this._report();
    return true;
  }

  _report() {
    const { position, queuedMs, underruns } = this._queue;
    this.port.postMessage({ position, queuedMs, underruns, peak: this._peak });
    this._peak = 0;
    this._framesSinceReport = 0;
  }
}

registerProcessor("duplex-playback", Playback);
