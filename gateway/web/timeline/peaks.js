// How loud each lane is, in tiles, asked for as they come into view: a coarse one stands in until the fine one is there.

export const BINS = 512;
export const LEVELS = 5;
const BIN_MS = 10;
const STEP = 4;
const AT_ONCE = 4;

export const binMs = (level) => BIN_MS * STEP ** level;
export const tileMs = (level) => binMs(level) * BINS;

// The coarsest level that still has a bin for each pixel.
export function levelFor(msPerPixel) {
  let level = 0;
  while (level + 1 < LEVELS && binMs(level + 1) <= msPerPixel) level += 1;
  return level;
}

export class Peaks {
  // `load(lane, level, numbers)` gives the bins of the tiles one after the other; `changed` is called when some came.
  constructor(load, changed) {
    this.load = load;
    this.changed = changed;
    this.tiles = new Map();
    this.wanted = new Map();
    this.timer = 0;
    this.generation = 0;
  }

  // From `fromMs` on everything may be another: forget it, but go on showing the old until the new is there.
  forget(fromMs) {
    this.generation += 1;
    for (const [key, tile] of this.tiles) {
      if (tile.end > fromMs) tile.stale = true;
      else if (!tile.bins) this.tiles.delete(key);
    }
  }

  tile(lane, level, number, asks = true) {
    const key = `${lane}/${level}/${number}`;
    const known = this.tiles.get(key);
    if (asks && (!known || known.stale)) {
      this.tiles.set(key, { bins: known?.bins ?? null, end: (number + 1) * tileMs(level), stale: false });
      this.want(lane, level, number);
    }
    return known?.bins ?? null;
  }

  // The loudest bin between two times, from the best tile that is there. 0 to 255.
  loudest(lane, level, fromMs, toMs) {
    for (let at = level; at < LEVELS; at += 1) {
      const wide = binMs(at);
      const first = Math.floor(fromMs / wide);
      const last = Math.max(first, Math.ceil(toMs / wide) - 1);
      const bins = this.tile(lane, at, Math.floor(first / BINS), at === level);
      if (!bins) continue;
      let most = 0;
      for (let bin = first; bin <= last; bin += 1) {
        const number = Math.floor(bin / BINS);
        const from = number * BINS === first - (first % BINS) ? bins : this.tile(lane, at, number, at === level);
        if (from && from[bin % BINS] > most) most = from[bin % BINS];
      }
      return most;
    }
    return 0;
  }

  want(lane, level, number) {
    const key = `${lane}/${level}`;
    if (!this.wanted.has(key)) this.wanted.set(key, []);
    this.wanted.get(key).push(number);
    this.timer ||= setTimeout(() => this.fetch(), 40);
  }

  async fetch() {
    this.timer = 0;
    const wanted = [...this.wanted];
    this.wanted.clear();
    for (const [key, numbers] of wanted) {
      const [lane, level] = key.split("/");
      for (let at = 0; at < numbers.length; at += AT_ONCE) {
        const some = numbers.slice(at, at + AT_ONCE);
        try {
          const bins = await this.load(lane, Number(level), some);
          some.forEach((number, index) => {
            const tile = this.tiles.get(`${lane}/${level}/${number}`);
            if (tile) tile.bins = bins.subarray(index * BINS, (index + 1) * BINS);
          });
        } catch {
          // Asked for again when it is drawn the next time.
          for (const number of some) this.tiles.delete(`${lane}/${level}/${number}`);
        }
        this.changed();
      }
    }
  }
}
