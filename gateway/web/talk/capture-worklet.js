// The microphone's end of capture, on the audio thread: brings it to the session's rate and cuts it into chunks.

import { Chunker } from "./chunker.js";
import { Resampler } from "./resampler.js";

const LEVEL_S = 0.02;

class Capture extends AudioWorkletProcessor {
  constructor({ processorOptions: { rateHz, chunkMs } }) {
    super();
    this._resampler = new Resampler(sampleRate, rateHz);
    this._chunker = new Chunker(Math.round((rateHz * chunkMs) / 1000));
    this._levels = [];
    this._peak = 0;
    this._frames = 0;
    this._isMuted = false;
    this.port.onmessage = ({ data }) => {
      this._isMuted = data.isMuted;
    };
  }

  process(inputs) {
    const heard = inputs[0][0];
    // No track yet, or the device is gone: time goes on, in silence.
    const samples = heard && !this._isMuted ? heard : new Float32Array(heard?.length ?? 128);
    this._measure(samples);
    for (const chunk of this._chunker.push(this._resampler.push(samples))) {
      this.port.postMessage({ chunk, levels: this._levels, endedAt: currentTime }, [chunk.buffer]);
      this._levels = [];
    }
    return true;
  }

  _measure(samples) {
    for (const sample of samples) this._peak = Math.max(this._peak, Math.abs(sample));
    this._frames += samples.length;
    if (this._frames >= LEVEL_S * sampleRate) {
      this._levels.push(this._peak);
      this._peak = this._frames = 0;
    }
  }
}

registerProcessor("duplex-capture", Capture);
