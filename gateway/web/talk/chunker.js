// Cuts a stream of samples into pieces of one length.

export class Chunker {
  constructor(size) {
    this._piece = new Float32Array(size);
    this._filled = 0;
  }

  // The pieces that `samples` complete, oldest first.
  push(samples) {
    const whole = [];
    for (let at = 0; at < samples.length; ) {
      const count = Math.min(samples.length - at, this._piece.length - this._filled);
      this._piece.set(samples.subarray(at, at + count), this._filled);
      this._filled += count;
      at += count;
      if (this._filled === this._piece.length) {
        whole.push(this._piece);
        this._piece = new Float32Array(this._piece.length);
        this._filled = 0;
      }
    }
    return whole;
  }
}
