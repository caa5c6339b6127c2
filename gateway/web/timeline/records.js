// The log behind the picture: the raw record, all marks as a list, and what lies under the pointer.

import { html, useState } from "../shell/view.js";
import { Icon } from "../shell/shell.js";
import { clock, kindName, LANES, length, place } from "./model.js";

const SHOWN_MARKS = 400;

export function targetOf({ lane, ref, mark, reply, report }) {
  return { lane, ref, mark, reply, report };
}

// The raw record, and what stands before and after it.
export function RecordPanel({ record, selected, source, openRecord, close }) {
  if (!record && !selected) {
    return html`<section class="card record" aria-label="Record">
      <div class="card-head"><h2>Record</h2></div>
      <p class="empty">Choose a mark, a turn or a seq: what stands in the log is shown here.</p>
    </section>`;
  }
  const next = async (by) => {
    const stream = record.stream;
    const [generation, number] = record.id.split("-").map(Number);
    if (stream === "output" && by < 0)
      return number > 1
        ? openRecord({ stream, seq: number - 1, id: `0-${number - 1}`, name: `seq ${number - 1}` })
        : undefined;
    if (by < 0)
      return number > 0
        ? openRecord({ stream, id: `${generation}-${number - 1}`, name: `input ${generation}-${number - 1}` })
        : undefined;
    const found = await source.after(stream, record.id);
    if (!found) return undefined;
    const seq = Number(found.id.split("-")[1]);
    return openRecord({
      stream,
      id: found.id,
      seq,
      name: stream === "output" ? `seq ${seq}` : `input ${found.id}`,
    });
  };
  const held = record?.held;
  const end = place(selected?.mark?.end_ref ?? selected?.reply?.end_ref ?? "");
  return html`<section class="card record" aria-label="Record">
    <div class="card-head">
      <h2>Record</h2>
      <span class="row">
        ${record
          ? html`<span class="badge accent" data-testid="record-name">${record.stream} ${held?.id ?? record.id}</span>`
          : null}
        ${end && end.id !== held?.id
          ? html`<button type="button" class="button small ghost" onClick=${() => openRecord(end)}>
              ended at ${end.name}
            </button>`
          : null}
        <button
          type="button"
          class="button small icon"
          aria-label="Record before"
          disabled=${!held}
          onClick=${() => next(-1)}
        >
          <${Icon}><path d="M15 6l-6 6 6 6" /><//>
        </button>
        <button
          type="button"
          class="button small icon"
          aria-label="Record after"
          disabled=${!held}
          onClick=${() => next(1)}
        >
          <${Icon}><path d="M9 6l6 6-6 6" /><//>
        </button>
        <button type="button" class="button small icon ghost" aria-label="Close the record" onClick=${close}>
          <${Icon}><path d="M6 6l12 12M18 6L6 18" /><//>
        </button>
      </span>
    </div>
    ${record?.trouble ? html`<p class="notice warn">${record.trouble}</p>` : null}
    ${held ? html`<pre class="raw" tabindex="0" data-testid="raw">${JSON.stringify(held, null, 2)}</pre>` : null}
  </section>`;
}

// All marks as a list, for who would rather read than look.
export function Marks({ marks, choose }) {
  const [lane, setLane] = useState("");
  const [text, setText] = useState("");
  const [most, setMost] = useState(SHOWN_MARKS);
  const [isOpen, setOpen] = useState(false);
  const wanted = text.toLowerCase();
  const found = isOpen
    ? marks.filter(
        (mark) =>
          (!lane || mark.lane === lane) && (!wanted || `${mark.name} ${mark.text}`.toLowerCase().includes(wanted)),
      )
    : [];
  return html`<details class="card marks" onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary class="card-head">
      <h2>All marks as a list</h2>
      <span class="badge">${marks.length}</span>
    </summary>
    <div class="card-body stack">
      <div class="row">
        <label class="field"
          ><span>Lane</span>
          <select class="input small" value=${lane} onChange=${(event) => setLane(event.target.value)}>
            <option value="">all lanes</option>
            ${LANES.map(([key, name]) => html`<option value=${key}>${name}</option>`)}
          </select>
        </label>
        <label class="field"
          ><span>Search</span>
          <input class="input small" type="search" value=${text} onInput=${(event) => setText(event.target.value)} />
        </label>
      </div>
      <div class="scroll-x">
        <table class="table">
          <thead>
            <tr>
              <th scope="col">Time</th>
              <th scope="col">Lasted</th>
              <th scope="col">Lane</th>
              <th scope="col">What</th>
              <th scope="col">Words</th>
              <th scope="col">Record</th>
            </tr>
          </thead>
          <tbody>
            ${found.slice(0, most).map(
              (mark) =>
                html`<tr>
                  <td class="number">
                    <button type="button" class="link" onClick=${() => choose(mark)}>${clock(mark.at)}</button>
                  </td>
                  <td class="number">${mark.end === null ? "" : length(mark.end - mark.at)}</td>
                  <td>${mark.laneName}</td>
                  <td>${mark.name}</td>
                  <td class="said">${mark.text}</td>
                  <td class="number">${place(mark.ref)?.name ?? ""}</td>
                </tr>`,
            )}
          </tbody>
        </table>
      </div>
      ${found.length > most
        ? html`<button type="button" class="button" onClick=${() => setMost(most + 1_000)}>
            Show ${Math.min(1_000, found.length - most)} more
          </button>`
        : null}
      ${isOpen && found.length === 0 ? html`<p class="empty">No mark is like that.</p>` : null}
    </div>
  </details>`;
}

export function Hint({ hover, start }) {
  const { target } = hover.hit;
  const { mark, reply, report, piece } = target;
  const where = place(target.ref);
  const lines = mark
    ? [`${kindName(mark.kind)}${mark.count > 1 ? ` ×${mark.count}` : ""}`, mark.text, range(mark.at, mark.end)]
    : report
      ? [
          report.truncate ? "truncated" : "playback reported",
          `${length(report.played_ms ?? 0)} played`,
          clock(report.at),
        ]
      : reply
        ? [
            `response ${reply.status ?? "in progress"}${reply.reason ? `: ${reply.reason}` : ""}`,
            (reply.text ?? "").trim(),
            `generated ${length(reply.generated_ms ?? 0)}, heard ${length(reply.heard_ms ?? 0)}, ` +
            `first sound after ${length(reply.latency_ms)}`,
          ]
        : piece
          ? ["caller audio", `${piece[4]} appends`, range(piece[0], piece[1])]
          : ["snapshot", `after seq ${target.snapshot}`, ""];
  const style = { left: `${Math.max(0, hover.x - 40)}px`, top: `${hover.y + 18}px` };
  return html`<div class="hint" style=${style} aria-hidden="true">
    <b>${lines[0]}</b>${lines[1] ? html`<span>${lines[1]}</span>` : null}
    <small>${lines[2]}${where ? ` · ${where.name}` : ""}</small>
  </div>`;
}

function range(at, end) {
  return end === undefined || end === null ? clock(at) : `${clock(at)} to ${clock(end)}, ${length(end - at)}`;
}
