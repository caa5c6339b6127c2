// Where a page gets a call from: the API of a gateway, or what is embedded in a report. One shape for both.

import { BINS, LEVELS } from "./peaks.js";

export class Refused extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

async function answer(response) {
  if (response.ok) return response;
  let error = {};
  try {
    error = (await response.json()).error ?? {};
  } catch {
    // Something between the gateway and here answered; its status says enough.
  }
  throw new Refused(response.status, error.code ?? "", error.message ?? `The gateway answered ${response.status}.`);
}

export async function ask(path, options = {}) {
  return answer(await fetch(path, { credentials: "same-origin", ...options }));
}

export const operator = {
  async status() {
    return (await ask("/v1/operator/session")).json();
  },
  async signIn(token) {
    const headers = { "Content-Type": "application/json" };
    await ask("/v1/operator/session", { method: "POST", headers, body: JSON.stringify({ token }) });
  },
  async signOut() {
    await ask("/v1/operator/session", { method: "DELETE" });
  },
};

export async function sessions(filters = {}) {
  const query = new URLSearchParams(Object.entries(filters).filter(([, value]) => value));
  return (await ask(`/v1/sessions?${query}`)).json();
}

export class Remote {
  constructor(session) {
    this.session = session;
    this.base = `/v1/sessions/${encodeURIComponent(session)}`;
    this.isLive = true;
    this.hasSound = true;
    this.isArchived = false;
    this.tag = "";
  }

  // The document, `null` when it is the one that was given last.
  async document() {
    const response = await fetch(`${this.base}/timeline`, {
      credentials: "same-origin",
      headers: this.tag ? { "If-None-Match": this.tag } : {},
    });
    if (response.status === 304) return null;
    await answer(response);
    this.tag = response.headers.get("ETag") ?? "";
    this.isArchived = response.headers.get("X-Duplex-Archived") !== null;
    return response.json();
  }

  async peaks(lane, level, numbers) {
    const response = await ask(`${this.base}/peaks?lane=${lane}&level=${level}&tiles=${numbers.join(",")}`);
    return new Uint8Array(await response.arrayBuffer());
  }

  async audio(lane, fromMs, toMs) {
    const query = `lane=${lane}&from_ms=${Math.round(fromMs)}&to_ms=${Math.round(toMs)}`;
    return (await ask(`${this.base}/audio?${query}`)).arrayBuffer();
  }

  async record({ stream, id, seq }) {
    const query = stream === "input" ? `stream=input&id=${id}` : `seq=${seq}`;
    return (await ask(`${this.base}/record?${query}`)).json();
  }

  // The next record of a stream after a place, `null` at the end.
  async after(stream, id) {
    const found = (await (await ask(`${this.base}/records?stream=${stream}&after=${id}&limit=1`)).json()).data[0];
    return found ?? null;
  }

  async divergence(other) {
    return (await ask(`${this.base}/divergence?with=${encodeURIComponent(other)}`)).json();
  }

  // Calls `moved` whenever the session is somewhere else, `ended` at its end. Returns a stop.
  follow(position, moved, ended) {
    const events = new EventSource(`${this.base}/events?after=${encodeURIComponent(position)}`);
    events.addEventListener("moved", (event) => moved(JSON.parse(event.data)));
    events.addEventListener("end", () => {
      events.close();
      ended();
    });
    return () => events.close();
  }

  get download() {
    return `${this.base}/export`;
  }
}

function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
}

async function unpacked(base64) {
  const stream = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

// What `duplex-es log report` put into a page.
export class Embedded {
  static async open(base64) {
    return new Embedded(await unpacked(base64));
  }

  constructor(held) {
    this.held = held;
    this.session = held.document.session;
    this.isLive = false;
    this.hasSound = Boolean(held.audio);
    this.fine = new Map();
  }

  // The finest tile of this number; `undefined` where all of it is silent.
  tile(lane, number) {
    const key = `${lane}/${number}`;
    if (!this.fine.has(key)) {
      const text = this.held.peaks[lane]?.[number];
      this.fine.set(key, text ? bytesOf(text) : undefined);
    }
    return this.fine.get(key);
  }

  async document() {
    return this.held.document;
  }

  async peaks(lane, level, numbers) {
    const wide = 4 ** Math.min(level, LEVELS - 1);
    const found = new Uint8Array(BINS * numbers.length);
    numbers.forEach((number, index) => {
      for (let part = 0; part < wide; part += 1) {
        const tile = this.tile(lane, number * wide + part);
        if (!tile) continue;
        for (let at = 0; at < BINS; at += 1) {
          const bin = index * BINS + Math.floor((part * BINS + at) / wide);
          if (tile[at] > found[bin]) found[bin] = tile[at];
        }
      }
    });
    return found;
  }

  async audio(lane, fromMs, toMs) {
    const { rate_hz: rate, chunk_ms: chunk, chunks } = this.held.audio[lane];
    const samples = new Int16Array(Math.floor(((toMs - fromMs) * rate) / 1000));
    for (let number = Math.floor(fromMs / chunk); number * chunk < toMs; number += 1) {
      if (!chunks[number]) continue;
      const part = new Int16Array(bytesOf(chunks[number]).buffer);
      const at = Math.round(((number * chunk - fromMs) * rate) / 1000);
      const skipped = Math.max(0, -at);
      if (at + skipped < samples.length) samples.set(part.subarray(skipped, samples.length - at), at + skipped);
    }
    return wav(samples, rate);
  }

  async record({ stream, id, seq }) {
    const rows = this.held.records[stream ?? "output"];
    const found = rows.find((row) => (stream === "input" ? row.id === id : Number(row.id.split("-")[1]) === seq));
    if (!found) throw new Refused(404, "record_not_found", "There is no such record in this report.");
    return found;
  }

  async after(stream, id) {
    const rows = this.held.records[stream];
    const at = rows.findIndex((row) => row.id === id);
    return rows[at + 1] ?? null;
  }
}

function wav(samples, rate) {
  const data = new DataView(new ArrayBuffer(44 + samples.length * 2));
  const text = (at, word) => [...word].forEach((char, index) => data.setUint8(at + index, char.charCodeAt(0)));
  text(0, "RIFF");
  data.setUint32(4, 36 + samples.length * 2, true);
  text(8, "WAVEfmt ");
  data.setUint32(16, 16, true);
  data.setUint16(20, 1, true);
  data.setUint16(22, 1, true);
  data.setUint32(24, rate, true);
  data.setUint32(28, rate * 2, true);
  data.setUint16(32, 2, true);
  data.setUint16(34, 16, true);
  text(36, "data");
  data.setUint32(40, samples.length * 2, true);
  new Int16Array(data.buffer, 44).set(samples);
  return data.buffer;
}
