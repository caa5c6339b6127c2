// Draws a call on a canvas, lane by lane. What it draws of is the stage; where a thing is drawn it leaves a hit there.

import { clock, kindName, LANES, seqAt, ticks } from "./model.js";
import { levelFor } from "./peaks.js";

const HEIGHTS = {
  caller: 58,
  speech: 24,
  model: 24,
  replies: 82,
  playback: 46,
  overlap: 24,
  tools: 24,
  sockets: 24,
  workers: 24,
  log: 42,
  errors: 24,
};
export const RULER = 26;
const GAP = 5;
const THIN = 12;
export const TOKENS = [
  "bg", "surface", "raised", "line", "line-strong", "text", "text-2", "text-3", "accent", "caller", "caller-soft",
  "assistant", "assistant-soft", "model", "tool", "worker", "store", "good", "warn", "bad",
]; // prettier-ignore

// Which lanes a call has something on, where each lies, and how high all of them are.
export function layout(doc) {
  let y = RULER;
  const rows = LANES.map(([key, name, tone]) => {
    const isEmpty = doc.marks[key] ? doc.marks[key].length === 0 : false;
    const height = isEmpty ? THIN : HEIGHTS[key];
    const row = { key, name, tone, y, height, isEmpty };
    y += height + GAP;
    return row;
  });
  return { rows, height: y };
}

export function same(one, other) {
  return one.lane === other.lane && one.ref === other.ref && Boolean(one.report) === Boolean(other.report);
}

export class Drawing {
  sized(canvas) {
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const width = canvas.clientWidth;
    const height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    return [pen, width, height];
  }

  draw() {
    const [pen, width, height] = this.sized(this.canvas);
    if (!width) return;
    this.pen = pen;
    this.width = width;
    this.hits = [];
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    this.drawRuler(height);
    for (const row of this.layout.rows) {
      pen.fillStyle = this.tones.raised;
      pen.globalAlpha = row.isEmpty ? 0.35 : 0.5;
      pen.fillRect(0, row.y, width, row.height);
      pen.globalAlpha = 1;
      if (row.key === "caller") this.drawCaller(row);
      else if (row.key === "replies") this.drawReplies(row);
      else if (row.key === "playback") this.drawPlayback(row);
      else if (row.key === "log") this.drawLog(row);
      else this.drawMarks(row, this.doc.marks[row.key] ?? []);
    }
    this.drawSelected();
    this.drawCursor(height);
    if (this.overview) this.drawOverview();
  }

  drawRuler(height) {
    const { pen, tones } = this;
    const { step, at } = ticks(this.view, this.width);
    pen.fillStyle = tones["text-3"];
    pen.strokeStyle = tones.line;
    pen.lineWidth = 1;
    pen.beginPath();
    for (const ms of at) {
      const x = Math.round(this.x(ms)) + 0.5;
      pen.moveTo(x, RULER - 6);
      pen.lineTo(x, height);
      pen.fillText(clock(ms, step < 100 ? 2 : step < 1000 ? 1 : 0), x + 4, RULER / 2 - 1);
    }
    pen.stroke();
  }

  hit(x, y, width, height, target) {
    this.hits.push({ x, y, width, height, target });
  }

  // The waveform of a lane of sound between two times.
  wave(lane, from, to, y, height, tone, alpha = 1) {
    const left = Math.max(0, this.x(from));
    const right = Math.min(this.width, this.x(to));
    if (right <= left) return;
    const { pen } = this;
    const msPerPixel = (this.view[1] - this.view[0]) / this.width;
    const level = levelFor(msPerPixel);
    const middle = y + height / 2;
    pen.fillStyle = tone;
    pen.globalAlpha = alpha;
    pen.beginPath();
    for (let x = Math.floor(left); x < right; x += 1) {
      const begin = Math.max(this.ms(x), from);
      const loud = this.peaks.loudest(lane, level, begin, Math.max(begin + 1, Math.min(this.ms(x + 1), to)));
      const tall = Math.max(1, (loud / 255) * (height - 4));
      pen.rect(x, middle - tall / 2, 1, tall);
    }
    pen.fill();
    pen.globalAlpha = 1;
  }

  isSeen(from, to) {
    return to >= this.view[0] && from <= this.view[1];
  }

  drawCaller(row) {
    const { pen, tones } = this;
    for (const piece of this.doc.caller) {
      const [from, to, first] = piece;
      if (!this.isSeen(from, to)) continue;
      const left = this.x(from);
      pen.fillStyle = tones["caller-soft"];
      pen.fillRect(left, row.y, Math.max(1, this.x(to) - left), row.height);
      this.wave("caller", from, to, row.y, row.height, tones.caller);
      this.hit(left, row.y, this.x(to) - left, row.height, { lane: "caller", ref: first, piece });
    }
  }

  // Text that is cut where its room ends.
  words(text, x, y, room, tone) {
    const left = Math.max(x, 4);
    const width = room - (left - x);
    if (width < 16 || !text) return;
    const { pen } = this;
    pen.save();
    pen.beginPath();
    pen.rect(left, y - 10, width - 3, 20);
    pen.clip();
    pen.fillStyle = tone;
    pen.fillText(text, left, y);
    pen.restore();
  }

  drawReplies(row) {
    const { pen, tones, generated } = this;
    const sound = row.height - 26;
    this.doc.replies.forEach((reply, index) => {
      const [from, to] = this.spans[index];
      if (!this.isSeen(from, to)) return;
      const left = this.x(from);
      const width = Math.max(2, this.x(to) - left);
      const runs = reply.runs ?? [];
      const heardTo = runs.length && !generated ? from + (reply.heard_ms ?? 0) : to;
      const rim = reply.status === "failed" ? tones.bad : reply.status === "cancelled" ? tones.warn : tones.assistant;
      pen.fillStyle = tones["assistant-soft"];
      pen.fillRect(left, row.y, Math.max(1, this.x(heardTo) - left), sound);
      if (heardTo < to) this.hatched(this.x(heardTo), row.y, this.x(to) - this.x(heardTo), sound);
      for (const [, lasts, heard, made] of runs) {
        const at = generated ? made : heard;
        if (at !== null) this.wave(generated ? "generated" : "heard", at, at + lasts, row.y, sound, tones.assistant);
      }
      pen.fillStyle = rim;
      if (width > 8) pen.fillRect(left, row.y, 2, row.height);
      pen.fillRect(left, row.y + sound - 1, width, width > 8 || rim === tones.assistant ? 1 : 4);
      this.drawWords(reply, index, left, width, row.y + sound + 13);
      this.hit(left, row.y, width, row.height, { lane: "replies", ref: reply.ref, reply });
    });
  }

  drawWords(reply, index, left, width, y) {
    const { pen, tones } = this;
    if (width < 24) return;
    const words = this.spoken[index];
    const roomy = words.length > 1 && width / (reply.text?.length || 1) > 7.5;
    if (!roomy) {
      this.words((reply.text ?? "").trim() || (reply.status ?? "…"), left + 5, y, width - 4, tones["text-2"]);
      return;
    }
    let free = -Infinity;
    const end = Math.min(this.width, this.x(this.spans[index + 1]?.[0] ?? Infinity) - 12);
    for (const word of words) {
      const x = Math.max(this.x(word.at) + 4, free);
      if (x > end) break;
      const text = word.text.trim();
      if (!text) continue;
      free = x + pen.measureText(`${text} `).width;
      if (free < 0) continue;
      const now = this.cursor >= word.at && this.cursor < word.end;
      pen.fillStyle = now ? tones.assistant : word.heard ? tones.text : tones["text-3"];
      pen.globalAlpha = word.heard ? 1 : 0.75;
      pen.fillText(text, x, y);
      if (!word.heard) pen.fillRect(x, y, free - x - 4, 1);
      pen.globalAlpha = 1;
    }
  }

  // What was sent and never heard.
  hatched(x, y, width, height) {
    const { pen, tones } = this;
    const left = Math.max(0, x);
    const right = Math.min(this.width, x + width);
    if (right <= left) return;
    pen.save();
    pen.beginPath();
    pen.rect(left, y, right - left, height);
    pen.clip();
    pen.strokeStyle = tones["line-strong"];
    pen.globalAlpha = 0.4;
    pen.beginPath();
    const first = x + Math.floor((left - x - height) / 7) * 7;
    for (let at = first; at < right; at += 7) {
      pen.moveTo(at, y + height);
      pen.lineTo(at + height, y);
    }
    pen.stroke();
    pen.restore();
  }

  drawPlayback(row) {
    const { pen, tones } = this;
    const tall = 9;
    const bar = (from, to, y, tone, alpha, target) => {
      if (!this.isSeen(from, to)) return;
      const left = this.x(from);
      const width = Math.max(3, this.x(to) - left);
      pen.fillStyle = tone;
      pen.globalAlpha = alpha;
      pen.fillRect(left, y, width, tall);
      pen.globalAlpha = 1;
      this.hit(left, y, width, tall, target);
    };
    for (const [index, reply] of this.doc.replies.entries()) {
      if (!(reply.runs ?? []).length) continue;
      const next = this.doc.replies[index + 1]?.sent ?? Infinity;
      const target = { lane: "playback", ref: reply.ref, reply };
      const sent = reply.sent ?? 0;
      bar(reply.made_from ?? 0, reply.made_to ?? 0, row.y + 3, tones.model, 0.8, target);
      bar(sent, Math.min(next, sent + (reply.generated_ms ?? 0)), row.y + 16, tones.assistant, 0.4, target);
      if (reply.heard_ms) bar(sent, sent + reply.heard_ms, row.y + 29, tones.assistant, 1, target);
    }
    let before = -Infinity;
    for (const report of this.doc.reports) {
      if (!this.isSeen(report.at, report.at)) continue;
      const x = this.x(report.at);
      if (x - before < 8) continue;
      before = x;
      pen.fillStyle = report.truncate ? tones.warn : tones.good;
      this.triangle(x, row.y + row.height - 1, 5);
      this.hit(x - 5, row.y + row.height - 10, 10, 10, { lane: "playback", ref: report.ref, report });
    }
  }

  triangle(x, y, size) {
    const { pen } = this;
    pen.beginPath();
    pen.moveTo(x, y - size * 1.6);
    pen.lineTo(x + size, y);
    pen.lineTo(x - size, y);
    pen.fill();
  }

  drawLog(row) {
    const { pen, tones, doc } = this;
    const low = seqAt(doc, this.view[0]);
    const high = Math.max(low + 1, seqAt(doc, this.view[1]));
    const bottom = row.y + row.height - 4;
    const y = (seq) => bottom - (Math.min(Math.max(seq - low, 0), high - low) / (high - low)) * (row.height - 23);
    pen.strokeStyle = tones.store;
    pen.lineWidth = 1.5;
    pen.beginPath();
    let before = seqAt(doc, this.view[0]);
    pen.moveTo(0, y(before));
    for (let x = 0; x <= this.width; x += 2) {
      const seq = seqAt(doc, this.ms(x));
      pen.lineTo(x, y(before));
      if (seq !== before) pen.lineTo(x, y(seq));
      before = seq;
    }
    pen.stroke();
    pen.fillStyle = tones.good;
    for (const [at, seq] of doc.acknowledged) {
      if (this.isSeen(at, at)) pen.fillRect(this.x(at) - 1, y(seq) - 1, 3, 3);
    }
    pen.fillStyle = tones["text-3"];
    let free = -1;
    for (const ms of ticks(this.view, this.width).at) {
      const x = this.x(ms);
      if (x < free) continue;
      const text = `seq ${seqAt(doc, ms)}`;
      pen.strokeStyle = tones.surface;
      pen.lineWidth = 4;
      pen.lineJoin = "round";
      pen.strokeText(text, x + 4, row.y + 9);
      pen.fillText(text, x + 4, row.y + 9);
      pen.lineWidth = 1;
      free = x + pen.measureText(text).width + 12;
    }
    for (const seq of doc.snapshots) {
      const at = doc.written.find((one) => one[1] >= seq)?.[0] ?? 0;
      if (!this.isSeen(at, at)) continue;
      const x = this.x(at);
      pen.fillStyle = tones.store;
      this.triangle(x, bottom + 2, 4);
      this.hit(x - 4, row.y, 8, row.height, { lane: "log", ref: `<0-${seq}`, snapshot: seq });
    }
    this.hit(0, row.y, this.width, row.height, null);
    this.hits.unshift(this.hits.pop());
  }

  tone(row, mark) {
    const { tones } = this;
    if (["failed", "rejected", "refused", "error", "takeover", "detached"].includes(mark.kind)) {
      return mark.kind === "takeover" ? tones.warn : tones.bad;
    }
    if (["forgotten", "silence", "listened", "memory"].includes(mark.kind)) return tones["line-strong"];
    return tones[row.tone];
  }

  drawMarks(row, marks) {
    const { pen } = this;
    const middle = row.y + row.height / 2;
    for (let at = 0; at < marks.length; at += 1) {
      const mark = marks[at];
      if (mark.at > this.view[1]) break;
      const end = mark.open ? this.lasts : (mark.end ?? mark.at);
      if (end < this.view[0]) continue;
      const left = this.x(mark.at);
      const width = this.x(end) - left;
      const tone = this.tone(row, mark);
      const target = { lane: row.key, ref: mark.ref, mark };
      pen.fillStyle = tone;
      if (mark.end !== undefined || mark.open) {
        pen.globalAlpha = 0.22;
        pen.fillRect(left, row.y + 2, Math.max(2, width), row.height - 4);
        pen.globalAlpha = 1;
        pen.fillRect(left, row.y + 2, 2, row.height - 4);
        this.words(mark.text || kindName(mark.kind), left + 6, middle, width - 6, this.tones.text);
        this.hit(left, row.y, Math.max(3, width), row.height, target);
      } else {
        const next = marks[at + 1];
        const room = (next ? this.x(next.at) : this.width) - left - 14;
        if (room < 0 && left - this.x(marks[at - 1]?.at ?? -1e9) < 14) pen.fillRect(left, row.y + 4, 1, row.height - 8);
        else this.diamond(left, middle, 6);
        if (room > 50 && !(row.key === "speech")) {
          this.words(mark.text || kindName(mark.kind), left + 10, middle, room, this.tones["text-2"]);
        }
        this.hit(left - 6, row.y, 12, row.height, target);
      }
    }
  }

  diamond(x, y, size) {
    const { pen } = this;
    pen.beginPath();
    pen.moveTo(x, y - size);
    pen.lineTo(x + size, y);
    pen.lineTo(x, y + size);
    pen.lineTo(x - size, y);
    pen.fill();
  }

  drawSelected() {
    if (!this.selected) return;
    const hit = this.hits.find((one) => one.target && same(one.target, this.selected));
    if (!hit) return;
    const { pen } = this;
    pen.strokeStyle = this.tones.accent;
    pen.lineWidth = 2;
    pen.strokeRect(Math.max(1, hit.x - 1), hit.y, Math.min(hit.width + 2, this.width - 2), hit.height);
    pen.lineWidth = 1;
  }

  drawCursor(height) {
    const { pen, tones } = this;
    const line = (at, tone, dashed) => {
      const x = Math.round(this.x(at)) + 0.5;
      if (x < -1 || x > this.width + 1) return x;
      pen.strokeStyle = tone;
      pen.lineWidth = dashed ? 1 : 1.5;
      pen.setLineDash(dashed ? [4, 4] : []);
      pen.beginPath();
      pen.moveTo(x, dashed ? 0 : 8);
      pen.lineTo(x, height);
      pen.stroke();
      pen.setLineDash([]);
      return x;
    };
    if (this.divergedAt !== null) {
      const x = line(this.divergedAt, tones.bad, true);
      pen.fillStyle = tones.bad;
      pen.fillText("they part here", x + 4, RULER - 4);
    }
    if (this.hover && !this.pointers.size) line(this.ms(this.hover.x), tones["line-strong"], true);
    const x = line(this.cursor, tones.accent, false);
    pen.fillStyle = tones.accent;
    pen.beginPath();
    pen.roundRect(x - 5, 0, 10, 10, 3);
    pen.fill();
  }

  drawOverview() {
    const [pen, width, height] = this.sized(this.overview);
    const all = this.lasts * 1.02;
    const { tones, doc } = this;
    // The sound of the whole call is drawn once, and again only when there is more of it.
    if (!this.strips || this.strips.width !== this.overview.width || this.strips.height !== this.overview.height) {
      this.strips = new OffscreenCanvas(this.overview.width, this.overview.height);
      this.drawStrips(this.strips.getContext("2d"), width, height, all);
    }
    pen.drawImage(this.strips, 0, 0, width, height);
    pen.fillStyle = tones.bad;
    for (const mark of doc.marks.errors ?? []) pen.fillRect((mark.at / all) * width, 0, 2, 4);
    const left = (this.view[0] / all) * width;
    const wide = Math.max(6, ((this.view[1] - this.view[0]) / all) * width);
    pen.fillStyle = tones.accent;
    pen.globalAlpha = 0.12;
    pen.fillRect(left, 0, wide, height);
    pen.globalAlpha = 1;
    pen.strokeStyle = tones.accent;
    pen.strokeRect(left + 0.5, 0.5, Math.min(wide, width - left) - 1, height - 1);
    pen.fillRect((this.cursor / all) * width - 0.5, 0, 1.5, height);
  }

  // The caller above the middle, the assistant below.
  drawStrips(pen, width, height, all) {
    const { tones, doc } = this;
    const half = height / 2;
    const level = levelFor(all / width);
    pen.scale(this.overview.width / width, this.overview.height / height);
    const strip = (lane, from, to, y, tone, flip) => {
      pen.fillStyle = tone;
      pen.beginPath();
      const right = Math.min(width, (to / all) * width);
      for (let x = Math.floor((from / all) * width); x < right; x += 1) {
        const begin = (x / width) * all;
        const loud = this.peaks.loudest(lane, level, Math.max(begin, 0), begin + all / width);
        const tall = Math.max(1, (loud / 255) * (half - 3));
        pen.rect(x, flip ? y : y - tall, 1, tall);
      }
      pen.fill();
    };
    for (const [from, to] of doc.caller) strip("caller", from, to, half - 1, tones.caller, false);
    doc.replies.forEach((reply, index) => {
      const [from] = this.spans[index];
      const lane = this.generated ? "generated" : "heard";
      const lasts = this.generated ? (reply.generated_ms ?? 0) : (reply.heard_ms ?? 0);
      if (lasts) strip(lane, from, from + lasts, half + 1, tones.assistant, true);
    });
  }
}
