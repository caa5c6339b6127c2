// How long the caller waited for the first sound of each answer.

import { html } from "../../shell/view.js";

const SHOWN = 24;
const FULL_MS = 2000;

export function ResponseTime({ shown }) {
  const values = shown.latencies.slice(-SHOWN);
  const top = Math.max(FULL_MS, ...values);
  return html`<section class="card" aria-labelledby="latency-title">
    <div class="card-head">
      <h2 id="latency-title">Response time</h2>
      ${shown.medianMs != null && html`<span class="small faint number">median ${shown.medianMs} ms</span>`}
    </div>
    <div class="card-body latency">
      <p class="latency-now">
        <output id="latency" class="number">${shown.latencyMs ?? "–"}</output>
        <span class="muted">ms</span>
      </p>
      <div class="latency-bars" aria-hidden="true">
        ${values.map((ms, at) => html`<i key=${at} style=${{ height: `${Math.max(6, (ms / top) * 100)}%` }}></i>`)}
      </div>
      <p class="small faint">From the end of your speech to the first sound of the answer, at this loudspeaker.</p>
    </div>
  </section>`;
}
