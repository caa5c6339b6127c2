// Where the call happens: the way in, then sound, words and the buttons that matter.

import { html, useRef, useState } from "../../shell/view.js";
import { CloseIcon, InterruptIcon, KeyboardIcon, MicrophoneIcon, MutedIcon, SendIcon } from "./icons.js";
import { Scope } from "./scope.js";
import { Transcript } from "./transcript.js";
import { endingOf } from "./words.js";

function Notice({ notice, dismiss }) {
  return html`<div class="notice bad" role="alert">
    <span>${notice.message}${notice.code ? html` <code class="faint">${notice.code}</code>` : null}</span>
    ${dismiss &&
    html`<button type="button" class="button ghost icon small" aria-label="Dismiss" onClick=${dismiss}>
      <${CloseIcon} />
    </button>`}
  </div>`;
}

function Welcome({ shown, start, canStart, isLooking }) {
  const ending = endingOf(shown);
  return html`<div class="welcome">
    <button type="button" class="talk-button" disabled=${!canStart} onClick=${() => start(true)}>
      <${MicrophoneIcon} /><span class="sr-only">Start talking</span>
    </button>
    <h1>${shown.phase === "ended" ? "Talk again" : "Talk to it"}</h1>
    <p class="muted">
      Speak when you like, also while it speaks: it listens all the time. Everything said is kept, in order, in the log of
      this service.
    </p>
    ${ending && html`<${Notice} notice=${{ message: ending }} />`}
    ${shown.notice && html`<${Notice} notice=${shown.notice} />`}
    ${!canStart &&
    !isLooking &&
    html`<p class="notice warn" role="alert">No model is running here yet. This page looks again every few seconds.</p>`}
    <button type="button" class="button ghost" disabled=${!canStart} onClick=${() => start(false)}>
      <${KeyboardIcon} />Start without a microphone
    </button>
  </div>`;
}

function Controls({ call, shown }) {
  const canInterrupt = shown.isSounding || Boolean(shown.conversation.answering);
  return html`<div class="controls" role="group" aria-label="Call">
    ${shown.hasMicrophone &&
    html`<button
      type="button"
      class="button"
      id="mute"
      aria-pressed=${shown.isMuted ? "true" : "false"}
      aria-keyshortcuts="M"
      title="M"
      onClick=${() => call.current.setMuted(!shown.isMuted)}
    >
      ${shown.isMuted ? html`<${MutedIcon} />` : html`<${MicrophoneIcon} />`}
      <span class="label">${shown.isMuted ? "Muted" : "Mute"}</span>
    </button>`}
    <button
      type="button"
      class="button"
      id="interrupt"
      disabled=${!canInterrupt}
      aria-keyshortcuts="Escape"
      title="Escape"
      onClick=${() => call.current.interrupt()}
    >
      <${InterruptIcon} /><span class="label">Interrupt</span>
    </button>
    <button type="button" class="button danger" id="end" onClick=${() => call.current.end()}>
      <${CloseIcon} /><span class="label">End</span>
    </button>
  </div>`;
}

function Composer({ call }) {
  const [text, setText] = useState("");
  const field = useRef(null);
  const send = (event) => {
    event.preventDefault();
    if (!text.trim()) return;
    call.current.type(text.trim());
    setText("");
    field.current.focus();
  };
  return html`<form class="composer" onSubmit=${send}>
    <label class="sr-only" for="say">Type instead of speaking</label>
    <input
      class="input"
      id="say"
      ref=${field}
      autocomplete="off"
      enterkeyhint="send"
      placeholder="Type instead of speaking"
      value=${text}
      onInput=${(event) => setText(event.currentTarget.value)}
    />
    <button class="button icon" aria-label="Send" disabled=${!text.trim()}><${SendIcon} /></button>
  </form>`;
}

function Hint({ shown }) {
  if (shown.phase === "opening") return html`<div class="hint"><p>Opening the session</p></div>`;
  return html`<div class="hint faint">
    <p>${shown.hasMicrophone ? "Go on, say something." : "Type something below."}</p>
    <p>${shown.hasMicrophone ? "Ask for a story, then talk over it." : "Ask for a story, then interrupt it."}</p>
  </div>`;
}

// `call` is a reference to the call, `start(useMicrophone)` makes one.
export function Stage({ call, shown, start, canStart, isLooking }) {
  const isOver = shown.phase === "idle" || shown.phase === "ended";
  const { turns } = shown.conversation;
  return html`<section class="card stage" aria-label="Conversation">
    ${!isOver && html`<h1 class="sr-only">In a call</h1><${Scope} call=${call} />`}
    ${shown.notice && !isOver && html`<${Notice} notice=${shown.notice} dismiss=${() => call.current.dismissNotice()} />`}
    ${shown.phase === "resuming" &&
    html`<p class="notice warn">The connection broke. What you say is kept and sent when it is back.</p>`}
    ${turns.length > 0 && html`<${Transcript} turns=${turns} />`}
    ${turns.length === 0 && !isOver && html`<${Hint} shown=${shown} />`}
    ${isOver
      ? html`<${Welcome} ...${{ shown, start, canStart, isLooking }} />`
      : html`<div class="dock"><${Composer} call=${call} /><${Controls} call=${call} shown=${shown} /></div>`}
  </section>`;
}
