// A second call beneath the first, on the same scale, and where the two part.

import { html, useEffect, useRef } from "../shell/view.js";
import { layout } from "./lanes.js";
import { Stage } from "./stage.js";

// What each lane is called, beside the canvas that draws it.
export function LaneNames({ doc }) {
  const parts = html`<span class="sub"><i>generated</i><i>sent</i><i>heard</i></span>`;
  return html`<ul class="lane-names" aria-hidden="true">
    ${layout(doc).rows.map((row) => {
      const style = { top: `${row.y}px`, height: `${row.height}px`, color: `var(--${row.isEmpty ? "text-3" : row.tone})` };
      return html`<li class=${row.isEmpty ? "empty-lane" : ""} style=${style}>
        ${row.name}${row.key === "playback" ? parts : null}
      </li>`;
    })}
  </ul>`;
}

// A second call beneath the first, on the same scale, and where the two part.
export function Compared({ compare, view, setView, stage, doc }) {
  const canvas = useRef(null);
  const other = useRef(null);
  const { source, doc: theirs, divergence, session, end } = compare;
  useEffect(() => {
    const made = new Stage(canvas.current, null, source, theirs, {
      view: setView,
      cursor: () => {},
      select: () => {},
    });
    other.current = made;
    made.show(view);
    return () => made.close();
  }, [session]);
  useEffect(() => {
    if (!other.current) return;
    other.current.view = view;
    other.current.dirty();
  }, [view]);
  useEffect(() => {
    if (stage.current) stage.current.divergedAt = divergence.alike ? null : divergence.at[0];
    if (other.current) other.current.divergedAt = divergence.alike ? null : divergence.at[1];
    stage.current?.dirty();
    other.current?.dirty();
    return () => {
      if (stage.current) stage.current.divergedAt = null;
      stage.current?.dirty();
    };
  }, [divergence]);
  const parted = divergence.first_divergence;
  return html`<section class="card compared" aria-label="Compared with another call" data-testid="compared">
    <div class="card-head">
      <h2>Compared with <a href=${`/sessions/${encodeURIComponent(session)}`}>${session}</a></h2>
      <span class="row">
        ${
          divergence.alike
            ? html`<span class="badge good">alike, decision by decision</span>`
            : html`<span class="badge warn">they part at decision ${parted.number}</span>
                <button
                  type="button"
                  class="button small"
                  onClick=${() => setView([divergence.at[0] - 3_000, divergence.at[0] + 7_000])}
                >
                  Show where
                </button>`
        }
        <button type="button" class="button small ghost" onClick=${end}>End the comparison</button>
      </span>
    </div>
    <div class="stage">
      <${LaneNames} doc=${theirs} />
      <div class="stage-view"><canvas ref=${canvas} class="lanes"></canvas></div>
    </div>
    ${
      parted
        ? html`<dl class="parted">
            <dt>${doc.session}, ${parted.a_id}</dt>
            <dd class="mono">${parted.a}</dd>
            <dt>${session}, ${parted.b_id}</dt>
            <dd class="mono">${parted.b}</dd>
          </dl>`
        : null
    }
    ${
      divergence.turns.length
        ? html`<div class="scroll-x">
            <table class="table">
              <thead>
                <tr>
                  <th scope="col">Turn</th>
                  <th scope="col">Differs in</th>
                  <th scope="col">${doc.session}</th>
                  <th scope="col">${session}</th>
                </tr>
              </thead>
              <tbody>
                ${divergence.turns.map(
                  (turn) =>
                    html`<tr>
                      <td>${turn.turn}</td>
                      <td>${turn.differs || "alike"}</td>
                      <td>${turn.a}</td>
                      <td>${turn.b}</td>
                    </tr>`,
                )}
              </tbody>
            </table>
          </div>`
        : null
    }
  </section>`;
}
