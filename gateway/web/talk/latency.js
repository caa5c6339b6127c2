// How long the caller waits: from the end of their speech to the first sound of the answer, both as a person hears them.

const FLOOR_RISE = 1.02;
const LEAST_LEVEL = 0.012;
const ABOVE_FLOOR = 3;
const LEVEL_MS = 20;
const KEPT = 50;

// Tells voice from background by loudness alone, and remembers when there was voice last.
export class VoiceGate {
  constructor() {
    this.lastVoiceAtMs = null;
    this._floor = LEAST_LEVEL / ABOVE_FLOOR;
  }

  // Peaks of 20 ms each; the last of them ended at `endedAtMs`.
  push(levels, endedAtMs) {
    levels.forEach((level, at) => {
      this._floor = Math.min(level + 0.0005, this._floor * FLOOR_RISE);
      if (level > Math.max(LEAST_LEVEL, this._floor * ABOVE_FLOOR)) {
        this.lastVoiceAtMs = endedAtMs - (levels.length - 1 - at) * LEVEL_MS;
      }
    });
  }
}

// Pairs ends of speech with the answers to them.
export class LatencyMeter {
  constructor() {
    this.values = [];
    this._spokenAtMs = null;
    this._answered = new Set();
  }

  // The server heard the caller's turn end; the voice itself ended at `spokenAtMs`.
  turnEnded(spokenAtMs) {
    this._spokenAtMs = spokenAtMs;
  }

  // The answer `responseId` sounds since `atMs`. Only the first answer to a turn counts, and only its first sound.
  soundBegan(responseId, atMs) {
    if (this._answered.has(responseId)) return;
    this._answered.add(responseId);
    if (this._spokenAtMs === null) return;
    const ms = Math.round(atMs - this._spokenAtMs);
    this._spokenAtMs = null;
    if (ms >= 0) this.values = [...this.values, ms].slice(-KEPT);
  }

  get last() {
    return this.values.at(-1) ?? null;
  }

  get median() {
    if (this.values.length === 0) return null;
    const sorted = [...this.values].sort((left, right) => left - right);
    const middle = sorted.length >> 1;
    return sorted.length % 2 ? sorted[middle] : Math.round((sorted[middle - 1] + sorted[middle]) / 2);
  }
}
