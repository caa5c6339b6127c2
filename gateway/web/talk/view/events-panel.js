// Everything that goes over the wire, newest last, with a filter and the whole event behind every row.

import { html, useMemo, useState } from "../../shell/view.js";
import { filtered, gist } from "../event-list.js";

const SHOWN = 200;

function Row({ row }) {
  const [isOpen, setOpen] = useState(false);
  const direction = row.direction === "in" ? "received" : "sent";
  return html`<details class="event" onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary>
      <span class=${`event-way ${row.direction}`} title=${direction} aria-hidden="true">${row.direction === "in" ? "↓" : "↑"}</span>
      <span class="sr-only">${direction}</span>
      <span class="event-type">${row.type}</span>
      ${row.count > 1 && html`<span class="event-count">×${row.count}</span>`}
      <span class="event-gist">${gist(row.event)}</span>
      <span class="event-time number">${(row.atMs / 1000).toFixed(2)}</span>
    </summary>
    ${isOpen && html`<pre tabindex="0">${JSON.stringify(row.event, null, 2)}</pre>`}
  </details>`;
}

export function EventsPanel({ rows }) {
  const [wanted, want] = useState("");
  const shown = useMemo(() => filtered(rows, wanted).slice(-SHOWN), [rows, wanted]);
  return html`<section class="card events" aria-labelledby="events-title">
    <div class="card-head">
      <h2 id="events-title">Events</h2>
      <label>
        <span class="sr-only">Filter events</span>
        <input
          class="input small"
          id="event-filter"
          type="search"
          placeholder="Filter"
          value=${wanted}
          onInput=${(event) => want(event.currentTarget.value)}
        />
      </label>
    </div>
    <div class="event-list" tabindex="0" role="region" aria-label="Events, newest last">
      <div>
        ${shown.length === 0 && html`<p class="empty small">${rows.length === 0 ? "Nothing yet." : "No event matches."}</p>`}
        ${shown.map((row) => html`<${Row} key=${row.key} row=${row} />`)}
      </div>
    </div>
  </section>`;
}
