// Plays a call: the caller on the left, the assistant on the right, window by window, each asked for just before.

const FIRST_MS = 4_000;
const WINDOW_MS = 10_000;
const AHEAD_S = 6;

export class Player {
  // `audio(lane, fromMs, toMs)` gives a WAV; `changed()` is called when it begins, ends or fails.
  constructor(audio, changed) {
    this.audio = audio;
    this.changed = changed;
    this.context = null;
    this.isPlaying = false;
    this.trouble = "";
    this.sources = new Set();
    this.muted = { caller: false, assistant: false };
    this.run = 0;
  }

  get at() {
    if (!this.isPlaying) return this.position ?? 0;
    const passed = (this.context.currentTime - this.startedAt) * 1000;
    return Math.min(this.end, this.from + Math.max(0, passed));
  }

  prepare() {
    if (this.context) return;
    this.context = new AudioContext();
    this.gains = {};
    for (const [side, pan] of [
      ["caller", -0.8],
      ["assistant", 0.8],
    ]) {
      const gain = new GainNode(this.context, { gain: this.muted[side] ? 0 : 1 });
      gain.connect(new StereoPannerNode(this.context, { pan })).connect(this.context.destination);
      this.gains[side] = gain;
    }
  }

  mute(side, silent) {
    this.muted[side] = silent;
    if (this.gains) this.gains[side].gain.value = silent ? 0 : 1;
    this.changed();
  }

  // Plays from `from` to `end`; `generated` plays all that was generated, heard or not.
  async play(from, end, generated = false) {
    this.stop();
    this.prepare();
    const run = ++this.run;
    // Windows are asked for in whole milliseconds; a rest of less than that would be an empty one.
    from = Math.round(from);
    end = Math.round(end);
    this.from = this.position = from;
    this.end = end;
    this.trouble = "";
    this.waiting = true;
    this.changed();
    try {
      await this.context.resume();
      let at = from;
      let first = true;
      while (at < end && run === this.run) {
        const until = Math.min(end, at + (first ? FIRST_MS : WINDOW_MS));
        const parts = await this.decoded(at, until, generated);
        if (run !== this.run) return;
        if (first) {
          this.startedAt = this.context.currentTime + 0.06;
          this.isPlaying = true;
          this.waiting = false;
          first = false;
          this.changed();
          this.watch(run);
        }
        this.schedule(parts, this.startedAt + (at - from) / 1000);
        at = until;
        while (run === this.run && this.startedAt + (at - from) / 1000 - this.context.currentTime > AHEAD_S) {
          await new Promise((done) => setTimeout(done, 200));
        }
      }
    } catch (error) {
      if (run !== this.run) return;
      this.stop();
      this.trouble = error.message;
      this.changed();
    }
  }

  async decoded(from, until, generated) {
    const lanes = [
      ["caller", "caller"],
      ["assistant", generated ? "generated" : "heard"],
    ];
    return Promise.all(
      lanes.map(async ([side, lane]) => [
        side,
        await this.context.decodeAudioData(await this.audio(lane, from, until)),
      ]),
    );
  }

  schedule(parts, when) {
    for (const [side, buffer] of parts) {
      const source = new AudioBufferSourceNode(this.context, { buffer });
      source.connect(this.gains[side]);
      const late = Math.max(0, this.context.currentTime - when);
      if (late < buffer.duration) source.start(when + late, late);
      this.sources.add(source);
      source.onended = () => this.sources.delete(source);
    }
  }

  watch(run) {
    const look = () => {
      if (run !== this.run || !this.isPlaying) return;
      if (this.at >= this.end) {
        this.stop();
        this.changed();
      } else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  }

  stop() {
    this.position = this.at;
    this.run += 1;
    this.isPlaying = this.waiting = false;
    for (const source of this.sources) {
      source.onended = null;
      try {
        source.stop();
      } catch {
        // It had not begun.
      }
    }
    this.sources.clear();
  }
}
