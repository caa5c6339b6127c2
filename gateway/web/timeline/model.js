// What a timeline document says, asked in the ways that a page asks it. Pure: no page, no network.

export const LANES = [
  ["caller", "Caller", "caller"],
  ["speech", "Speech", "caller"],
  ["model", "Model", "model"],
  ["replies", "Responses", "assistant"],
  ["playback", "Playback", "assistant"],
  ["overlap", "Overlap", "warn"],
  ["tools", "Tools", "tool"],
  ["sockets", "Sockets", "good"],
  ["workers", "Workers", "worker"],
  ["log", "Log", "store"],
  ["errors", "Errors", "bad"],
];

const NAMES = Object.fromEntries(LANES.map(([key, name]) => [key, name]));

// `1:02.34`; hours only where there are some.
export function clock(ms, digits = 2) {
  const sign = ms < 0 ? "-" : "";
  const total = Math.abs(ms) / 1000;
  const hours = Math.floor(total / 3600);
  const minutes = Math.floor((total % 3600) / 60);
  const rest = (Math.floor((total % 60) * 10 ** digits) / 10 ** digits)
    .toFixed(digits)
    .padStart(digits ? 3 + digits : 2, "0");
  return hours ? `${sign}${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${sign}${minutes}:${rest}`;
}

// `1.23 s`, or `12:34` for what lasts longer.
export function length(ms) {
  if (ms === null || ms === undefined) return "–";
  return ms < 60_000 ? `${(ms / 1000).toFixed(2)} s` : clock(ms, 0);
}

// A place of the log: `<7-42` is seq 42 of the output, `>2-17` entry 2-17 of the input.
export function place(ref) {
  if (!ref) return null;
  const id = ref.slice(1);
  const number = Number(id.split("-")[1]);
  return ref[0] === "<"
    ? { stream: "output", id, seq: number, name: `seq ${number}` }
    : { stream: "input", id, name: `input ${id}` };
}

// Where a moment of an answer's sound lies in the call; what was never heard goes on where the heard part ended.
export function timeOf(reply, offset, generated = false) {
  const runs = reply.runs ?? [];
  if (!runs.length) return reply.created + offset;
  let end = null;
  for (const [start, lasts, heard, made] of runs) {
    const at = generated ? made : heard;
    if (at === null) break;
    if (offset < start + lasts) return at + Math.max(0, offset - start);
    end = { at: at + lasts, offset: start + lasts };
  }
  if (end) return end.at + offset - end.offset;
  return (reply.sent ?? reply.created) + offset;
}

// The words of an answer: `{at, end, text, heard}`, by time.
export function wordsOf(reply, generated = false) {
  const words = reply.words ?? [];
  const spoken = (reply.runs ?? []).length > 0;
  return words.map(([offset, text], index) => {
    const next = index + 1 < words.length ? words[index + 1][0] : Math.max(offset + 200, reply.generated_ms ?? 0);
    const heard = !spoken || generated || offset < (reply.heard_ms ?? 0);
    return { at: timeOf(reply, offset, generated), end: timeOf(reply, next, generated), text, heard };
  });
}

// Where an answer begins and ends in the call, with all of it that was sent.
export function spanOf(reply, generated = false) {
  if (!(reply.runs ?? []).length) return [reply.created, reply.done ?? reply.created + 200];
  const begin = timeOf(reply, 0, generated);
  return [begin, begin + (reply.generated_ms ?? 0)];
}

// Until where the document says anything, in the one way of playing or the other.
export function lengthOf(doc, generated = false) {
  return Math.max(doc.length_ms, 1, ...doc.replies.map((reply) => (generated ? spanOf(reply, true)[1] : 0)));
}

// What is said at a moment: the caller's utterance, and the answer's words up to there.
export function saidAt(doc, at, generated = false) {
  const utterance = (doc.marks.speech ?? []).find(
    (mark) => mark.kind === "speech" && mark.at <= at && at < (mark.end ?? mark.at) + 300,
  );
  let reply = null;
  for (const one of doc.replies) {
    const [begin, end] = spanOf(one, generated);
    const until = generated || !(one.runs ?? []).length ? end : begin + (one.heard_ms ?? 0);
    if (begin <= at && at < Math.max(until, begin + 1) + 300) reply = one;
  }
  if (!reply) return { caller: utterance?.text ?? "", said: "", rest: "" };
  const words = wordsOf(reply, generated).filter((word) => word.heard);
  const said = words.filter((word) => word.at <= at);
  return {
    caller: utterance?.text ?? "",
    said: said
      .map((word) => word.text)
      .join("")
      .trim(),
    rest: words
      .slice(said.length)
      .map((word) => word.text)
      .join("")
      .trim(),
  };
}

const KINDS = {
  committed: "turn committed",
  speech: "speech",
  forgotten: "speech, forgotten",
  silence: "committed without speech",
  turn: "model's turn",
  listened: "kept listening",
  takeover: "taken over",
  socket: "socket",
  detached: "socket gone",
  asked_again: "asked again",
  heard_again: "heard again",
  put_off: "put off",
};

export function kindName(kind) {
  return KINDS[kind] ?? kind.replaceAll("_", " ");
}

// Every mark of the document as one list by time, for readers, for search and for going from one to the next.
export function allMarks(doc, generated = false) {
  const found = [];
  for (const [lane, marks] of Object.entries(doc.marks)) {
    for (const mark of marks) {
      const name = kindName(mark.kind) + (mark.count > 1 ? ` ×${mark.count}` : "");
      found.push({
        lane,
        at: mark.at,
        end: mark.end ?? null,
        name,
        text: mark.text ?? "",
        ref: mark.ref ?? "",
        mark,
      });
    }
  }
  for (const reply of doc.replies) {
    const [at, end] = spanOf(reply, generated);
    const heard = reply.runs?.length ? `${length(reply.heard_ms ?? 0)} of ${length(reply.generated_ms)} heard` : "text";
    const how = [reply.status ?? "in_progress", reply.reason].filter(Boolean).join(", ");
    found.push({
      lane: "replies",
      at,
      end,
      name: `response, ${how}, ${heard}`,
      text: (reply.text ?? "").trim(),
      ref: reply.ref,
      reply,
    });
  }
  for (const report of doc.reports) {
    const name = report.truncate ? "truncated" : "playback reported";
    found.push({
      lane: "playback",
      at: report.at,
      end: null,
      name,
      text: `${length(report.played_ms ?? 0)} played`,
      ref: report.ref,
      report,
    });
  }
  for (const [at, end, first, , count] of doc.caller) {
    found.push({ lane: "caller", at, end, name: `sound in ${count} pieces`, text: "", ref: first });
  }
  for (const seq of doc.snapshots) {
    const at = timeOfSeq(doc, seq);
    found.push({ lane: "log", at, end: null, name: "snapshot", text: `state after seq ${seq}`, ref: `<0-${seq}` });
  }
  return found
    .sort((a, b) => a.at - b.at)
    .map((one, index) => ({ ...one, index, laneName: NAMES[one.lane] ?? one.lane }));
}

// The last index whose value is at or below `wanted`, -1 without one. `rows` ascend by `key(row)`.
export function lastUpTo(rows, wanted, key) {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (key(rows[middle]) <= wanted) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

// About when a seq was written: the sample of the log at or before it.
export function timeOfSeq(doc, seq) {
  const at = lastUpTo(doc.written, seq, (row) => row[1]);
  return at < 0 ? 0 : doc.written[at][0];
}

// How far the log was at a time.
export function seqAt(doc, ms) {
  const at = lastUpTo(doc.written, ms, (row) => row[0]);
  return at < 0 ? doc.first_seq : doc.written[at][1];
}

// `#t=1.2&zoom=0-9.1&seq=44` as an object; what is not there is not in it.
export function readLink(hash) {
  const query = new URLSearchParams(hash.replace(/^#/, ""));
  const found = {};
  if (query.has("t")) found.at = Number(query.get("t")) * 1000;
  if (/^\d+$/.test(query.get("seq") ?? "")) found.seq = Number(query.get("seq"));
  const zoom = /^(-?[\d.]+)-([\d.]+)$/.exec(query.get("zoom") ?? "");
  if (zoom) found.view = [Number(zoom[1]) * 1000, Number(zoom[2]) * 1000];
  if (query.get("with")) found.other = query.get("with");
  if (query.get("as") === "generated") found.generated = true;
  return found;
}

export function writeLink({ at, view, seq, other, generated }) {
  const parts = [`t=${(at / 1000).toFixed(2)}`, `zoom=${(view[0] / 1000).toFixed(2)}-${(view[1] / 1000).toFixed(2)}`];
  if (seq) parts.push(`seq=${seq}`);
  if (other) parts.push(`with=${encodeURIComponent(other)}`);
  if (generated) parts.push("as=generated");
  return `#${parts.join("&")}`;
}

// A view of the same length that stays within the call, with a little air at the end; never below a tenth of a second.
export function kept([from, to], lasts) {
  const air = lasts * 0.02;
  const span = Math.min(Math.max(to - from, 100), lasts + air);
  const start = Math.min(Math.max(from, 0), Math.max(0, lasts + air - span));
  return [start, start + span];
}

export function zoomed([from, to], factor, around, lasts) {
  const span = (to - from) * factor;
  const part = (around - from) / (to - from || 1);
  return kept([around - part * span, around + (1 - part) * span], lasts);
}

const STEPS = [10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 12e5, 36e5];

// Where the ruler has its lines: a step that leaves about `apart` pixels between two of them.
export function ticks([from, to], width, apart = 90) {
  const step = STEPS.find((one) => (one / (to - from)) * width >= apart) ?? STEPS.at(-1);
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return { step, at: found };
}

// A text as one word of a shell's command, whatever is in it: ids are as their clients chose them.
export function shellWord(text) {
  return /^[A-Za-z0-9_.,:@%+=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

// The name under which the gateway sends a session's file.
export function fileName(session, incarnation) {
  return `${session}-${incarnation}.dxlog`.replace(/[^A-Za-z0-9_.-]/gu, "_");
}
