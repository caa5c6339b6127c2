// What was said by whom: text follows the sound, and what nobody heard is marked as such.

import { html } from "../../shell/view.js";
import { heardCharacters } from "../conversation.js";
import { durationOf } from "./words.js";

const REASONS = { client_cancelled: "by you", turn_detected: "by your voice", barge_in: "by your voice" };

function CallerTurn({ turn }) {
  return html`<li class="turn caller" data-who="caller" data-state=${turn.state}>
    <span class="turn-name">You${turn.isTyped ? " typed" : ""}</span>
    <p class="turn-text">${turn.text || html`<span class="waiting" role="img" aria-label="speaking"><i></i><i></i><i></i></span>`}</p>
  </li>`;
}

function AssistantTurn({ turn }) {
  const count = heardCharacters(turn);
  const isOver = turn.state !== "open" && (turn.state !== "done" || turn.heardMs >= turn.endMs - 1);
  const [heard, rest] = [turn.text.slice(0, count), turn.text.slice(count).trimEnd()];
  const isCut = turn.state === "interrupted" && (rest !== "" || turn.reason in REASONS);
  const ledger = { "data-heard-ms": Math.round(turn.heardMs), "data-end-ms": Math.round(turn.endMs) };
  return html`<li class="turn assistant" data-who="assistant" data-state=${turn.state} ...${ledger}>
    <span class="turn-name">Assistant</span>
    <p class="turn-text">
      <span class="heard">${heard}</span>
      ${rest &&
      (isCut
        ? html`<del class="unheard" title="Said, but not heard">${rest}</del>`
        : html`<span class=${isOver ? "heard" : "coming"}>${rest}</span>`)}
    </p>
    ${isCut &&
    html`<span class="turn-note">
      Interrupted ${REASONS[turn.reason] ?? ""}${turn.hasSound ? ` after ${durationOf(turn.heardMs)}` : ""}
    </span>`}
    ${turn.state === "failed" && html`<span class="turn-note bad">Broke off: ${turn.reason ?? "the model failed"}</span>`}
  </li>`;
}

function ToolTurn({ turn }) {
  return html`<li class="turn tool" data-who="tool">
    <span class="turn-name">Tool call</span>
    <p class="turn-text mono">${turn.name}(${turn.text})</p>
  </li>`;
}

const VIEWS = { caller: CallerTurn, assistant: AssistantTurn, tool: ToolTurn };

export function Transcript({ turns }) {
  return html`<div class="transcript" tabindex="0" role="region" aria-label="Transcript">
    <ol>
      ${turns.map((turn) => html`<${VIEWS[turn.who]} key=${turn.key} turn=${turn} />`)}
    </ol>
  </div>`;
}
