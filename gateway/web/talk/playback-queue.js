// What is still to be played, and how much of each answer was: the part of playback that needs no audio device.

const START_S = 0.06;
const FADE_S = 0.006;

export class PlaybackQueue {
  // `rateHz` is the device's; pieces come in it.
  constructor(rateHz) {
    this.underruns = 0;
    this._rateHz = rateHz;
    this._pieces = [];
    this._fade = null;
    this._isPlaying = false;
    this._endedWhole = false;
    this._position = null;
  }

  // One more piece of the answer `id`, which lies from `startMs` to `endMs` of it.
  push({ id, samples, startMs, endMs }) {
    this._pieces.push({ id, samples, startMs, endMs, at: 0, isLast: false });
  }

  // Nothing more comes of the answer `id`: what is there need not wait for more.
  finish(id) {
    const piece = this._pieces.findLast((each) => each.id === id);
    if (piece) piece.isLast = true;
  }

  // Fall silent, with a short fade so that nothing clicks.
  flush() {
    const current = this._pieces[0];
    if (current && this._isPlaying) {
      const rest = current.samples.subarray(current.at, current.at + Math.round(FADE_S * this._rateHz));
      this._fade = rest.map((sample, at) => sample * (1 - at / rest.length));
    }
    this._pieces = [];
    this._isPlaying = false;
  }

  // Samples that wait, in milliseconds.
  get queuedMs() {
    return (this._pieces.reduce((sum, each) => sum + each.samples.length - each.at, 0) * 1000) / this._rateHz;
  }

  // `{id, ms}`: how far the answer that sounded last was played, `null` before the first.
  get position() {
    return this._position;
  }

  // Fill `out`, with silence where there is nothing.
  render(out) {
    out.fill(0);
    if (this._fade) {
      out.set(this._fade.subarray(0, out.length));
      this._fade = this._fade.length > out.length ? this._fade.subarray(out.length) : null;
      return;
    }
    if (!this._isPlaying && !this._mayStart()) return;
    this._isPlaying = true;
    let filled = 0;
    while (filled < out.length && this._pieces.length > 0) filled += this._play(out, filled);
    if (this._pieces.length === 0) {
      this._isPlaying = false;
      if (filled < out.length && !this._endedWhole) this.underruns += 1;
    }
  }

  _mayStart() {
    return this._pieces.length > 0 && (this._pieces.some((each) => each.isLast) || this.queuedMs >= START_S * 1000);
  }

  _play(out, filled) {
    const piece = this._pieces[0];
    const count = Math.min(out.length - filled, piece.samples.length - piece.at);
    out.set(piece.samples.subarray(piece.at, piece.at + count), filled);
    piece.at += count;
    const share = piece.samples.length === 0 ? 1 : piece.at / piece.samples.length;
    this._position = { id: piece.id, ms: piece.startMs + (piece.endMs - piece.startMs) * share };
    if (piece.at >= piece.samples.length) {
      this._pieces.shift();
      this._endedWhole = piece.isLast;
    }
    return count;
  }
}
