// Brings a stream of samples from one rate to another: windowed sinc, with memory, so that pieces join without clicks.

const HALF_WIDTH = 16;
const TABLE_STEPS = 256;

function kernel(cutoff) {
  // One side of a symmetric kernel, TABLE_STEPS values per input sample, Blackman window.
  const size = HALF_WIDTH * TABLE_STEPS + 2;
  const table = new Float32Array(size);
  for (let at = 0; at < size; at += 1) {
    const x = at / TABLE_STEPS;
    const phase = Math.PI * x * cutoff;
    const sinc = x === 0 ? 1 : Math.sin(phase) / phase;
    const place = x / HALF_WIDTH;
    const window = place >= 1 ? 0 : 0.42 + 0.5 * Math.cos(Math.PI * place) + 0.08 * Math.cos(2 * Math.PI * place);
    table[at] = cutoff * sinc * window;
  }
  return table;
}

export class Resampler {
  constructor(fromHz, toHz) {
    this._step = fromHz / toHz;
    // Below both Nyquist limits, with room for the slope of the filter.
    this._table = fromHz === toHz ? null : kernel(Math.min(1, toHz / fromHz) * 0.94);
    this._held = new Float32Array(HALF_WIDTH);
    // The place of the next output sample, in input samples, counted from the start of what is held.
    this._at = HALF_WIDTH;
  }

  // The output that `samples` complete; the last few milliseconds come with the next call.
  push(samples) {
    if (this._table === null) return samples;
    const input = new Float32Array(this._held.length + samples.length);
    input.set(this._held);
    input.set(samples, this._held.length);
    const count = Math.max(0, Math.ceil((input.length - HALF_WIDTH - this._at) / this._step));
    const output = new Float32Array(count);
    for (let n = 0; n < count; n += 1) output[n] = this._sample(input, this._at + n * this._step);
    const next = this._at + count * this._step;
    const drop = Math.max(0, Math.min(input.length, Math.floor(next) - HALF_WIDTH));
    this._held = input.slice(drop);
    this._at = next - drop;
    return output;
  }

  // The rest, after the last `push`.
  flush() {
    return this._table === null ? new Float32Array(0) : this.push(new Float32Array(HALF_WIDTH));
  }

  _sample(input, place) {
    const middle = Math.floor(place);
    let sum = 0;
    for (let at = middle - HALF_WIDTH + 1; at <= middle + HALF_WIDTH; at += 1) {
      if (at < 0 || at >= input.length) continue;
      const index = Math.abs(place - at) * TABLE_STEPS;
      const left = Math.floor(index);
      const weight = this._table[left] + (this._table[left + 1] - this._table[left]) * (index - left);
      sum += input[at] * weight;
    }
    return sum;
  }
}
