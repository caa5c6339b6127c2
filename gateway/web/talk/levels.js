// Loudness over the last seconds, for drawing: a ring of peaks with the moments they belong to.

const STEP_MS = 20;

export class Levels {
  constructor(spanMs = 12_000) {
    this._peaks = new Float32Array(Math.ceil(spanMs / STEP_MS));
    this._last = null;
  }

  // The peak of the 20 ms that end at `atMs`; a louder one for the same moment wins.
  put(peak, atMs) {
    const step = Math.floor(atMs / STEP_MS);
    this._clearTo(step);
    if (step > this._last - this._peaks.length) {
      const at = this._index(step);
      this._peaks[at] = Math.max(this._peaks[at], peak);
    }
  }

  // The peak `agoMs` before `nowMs`.
  at(nowMs, agoMs) {
    const step = Math.floor((nowMs - agoMs) / STEP_MS);
    if (this._last === null || step > this._last || step <= this._last - this._peaks.length) return 0;
    return this._peaks[this._index(step)];
  }

  _clearTo(step) {
    if (this._last === null || step - this._last >= this._peaks.length) {
      this._peaks.fill(0);
      this._last = step;
    }
    for (; this._last < step; this._last += 1) this._peaks[this._index(this._last + 1)] = 0;
  }

  _index(step) {
    return ((step % this._peaks.length) + this._peaks.length) % this._peaks.length;
  }
}
