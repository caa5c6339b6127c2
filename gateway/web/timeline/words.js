// What was said in a call, and its numbers.

import { Fragment, html, useEffect, useMemo, useRef } from "../shell/view.js";
import { clock, length, spanOf } from "./model.js";

// The call as a conversation.
export function Words({ doc, generated, cursor, seek }) {
  const turns = useMemo(() => {
    const found = [];
    for (const mark of doc.marks.speech) {
      if (mark.kind === "speech" && mark.text) {
        found.push({
          who: "caller",
          at: mark.at,
          end: mark.end,
          text: mark.text,
          target: { lane: "speech", ref: mark.ref, mark },
        });
      }
    }
    const spoken = new Set(found.map((turn) => turn.target.mark.item));
    for (const mark of doc.marks.speech) {
      if (mark.kind === "committed" && mark.text && !spoken.has(mark.item)) {
        found.push({
          who: "caller",
          at: mark.at,
          end: mark.at,
          text: mark.text,
          target: { lane: "speech", ref: mark.ref, mark },
        });
      }
    }
    for (const reply of doc.replies) {
      const [at, end] = spanOf(reply, generated);
      found.push({
        who: "assistant",
        at,
        end,
        text: (reply.text ?? "").trim(),
        reply,
        target: { lane: "replies", ref: reply.ref, reply },
      });
    }
    return found.sort((a, b) => a.at - b.at);
  }, [doc, generated]);
  const list = useRef(null);
  const current = turns.findLastIndex((turn) => turn.at <= cursor + 1);
  useEffect(() => {
    const line = list.current?.children[current];
    if (line) list.current.scrollTop = Math.max(0, line.offsetTop - list.current.clientHeight / 2);
  }, [current]);
  return html`<section class="card words" aria-label="What was said">
    <div class="card-head">
      <h2>Words</h2>
      <span class="faint small">${turns.length}</span>
    </div>
    ${turns.length === 0 ? html`<p class="empty">Nobody has said anything yet.</p>` : null}
    <ol ref=${list} class="turns" tabindex="0" aria-label="Turns">
      ${turns.map(
        (turn, index) =>
          html`<li class=${`${turn.who} ${index === current ? "current" : ""}`}>
            <button
              type="button"
              onClick=${() => seek(turn.at, turn.target)}
              aria-current=${index === current ? "true" : undefined}
            >
              <span class="number faint">${clock(turn.at, 1)}</span>
              <b class=${`who ${turn.who}`}>${turn.who === "caller" ? "Caller" : "Assistant"}</b>
              <span class="text"
                >${turn.reply ? html`<${Heard} reply=${turn.reply} generated=${generated} />` : turn.text}</span
              >
            </button>
          </li>`,
      )}
    </ol>
  </section>`;
}

export function Heard({ reply }) {
  const words = reply.words ?? [];
  const sounds = (reply.runs ?? []).length > 0;
  const heard = words
    .filter(([offset]) => !sounds || offset < (reply.heard_ms ?? 0))
    .map(([, text]) => text)
    .join("");
  const rest = words
    .filter(([offset]) => sounds && offset >= (reply.heard_ms ?? 0))
    .map(([, text]) => text)
    .join("");
  const status = reply.status ?? "in_progress";
  const how = [status.replace("_", " "), reply.reason].filter(Boolean).join(": ");
  return html`<${Fragment}>
    ${heard.trim()} ${rest.trim() ? html`<s title="sent and never heard">${rest.trim()}</s>` : null}
    ${status === "completed"
      ? null
      : html`<span class=${`badge ${status === "failed" ? "bad" : "warn"}`}>${how}</span>`}
  <//>`;
}

// The numbers of a call, in a line.
export function Numbers({ doc }) {
  const { stats } = doc;
  const answers = Object.entries(stats.answers)
    .map(([name, count]) => `${count} ${name.replace("_", " ")}`)
    .join(", ");
  const rows = [
    ["Length", length(doc.length_ms)],
    ["Turns", `${stats.turns}`],
    ["Answers", answers || "none"],
    ["First sound", `${length(stats.first_sound_ms.median)} median, ${length(stats.first_sound_ms.worst)} worst`],
    ["Interrupted", `${stats.interruptions}`],
    ["Caller", `${length(stats.caller_ms)} · ${Math.round(stats.caller_ratio * 100)}%`],
    ["Assistant", `${length(stats.assistant_ms)} · ${Math.round(stats.assistant_ratio * 100)}%`],
    ["Overlap", length(stats.overlap_ms)],
    ["Longest silence", length(stats.longest_silence_ms)],
    ["Sockets", `${stats.attaches}`],
    ["Takeovers", `${stats.takeovers}`],
  ];
  return html`<dl class="numbers">
    ${rows.map(
      ([name, value]) =>
        html`<div>
          <dt>${name}</dt>
          <dd class="number">${value}</dd>
        </div>`,
    )}
  </dl>`;
}
