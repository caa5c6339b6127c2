// The events of a call as a list to read: both directions, without sound, repeats folded into one row.

import { errorOf, withoutSound } from "./events.js";

const KEPT = 400;
const FOLDED = new Set(["input_audio_buffer.append", "playback.ack", "playback.acknowledged", "session.event_ack"]);

// A row: `{key, atMs, direction, type, seq, count, event}`; `atMs` counts from the first event, `direction`
// is "in" or "out". Newest last.
export class EventList {
  constructor() {
    this.rows = [];
    this._next = 0;
    this._startMs = null;
  }

  push(direction, event, atMs) {
    this._startMs ??= atMs;
    const last = this.rows.at(-1);
    const row = {
      key: this._next++,
      atMs: atMs - this._startMs,
      direction,
      type: event.type,
      seq: event.server_event_seq ?? null,
      count: 1,
      event: withoutSound(event),
    };
    if (last && last.type === row.type && last.direction === direction && FOLDED.has(row.type)) {
      this.rows = [...this.rows.slice(0, -1), { ...row, key: last.key, count: last.count + 1 }];
    } else {
      this.rows = [...this.rows, row].slice(-KEPT);
    }
  }
}

// The rows whose type or text has every word of `wanted`.
export function filtered(rows, wanted) {
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return rows;
  return rows.filter((row) => {
    const text = `${row.direction === "in" ? "received" : "sent"} ${row.type} ${JSON.stringify(row.event)}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

// What matters of an event, in a few words.
export function gist(event) {
  if (event.type === "error") return errorOf(event).code ?? errorOf(event).message;
  return String(
    event.transcript ??
      (event.type.endsWith("transcript.delta") || event.type.endsWith("text.delta") ? event.delta : null) ??
      event.response?.status_details?.reason ??
      event.response?.status ??
      event.reason ??
      event.action ??
      (event.played_ms === undefined ? "" : `${event.played_ms} ms`),
  );
}
