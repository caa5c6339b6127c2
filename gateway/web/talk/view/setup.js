// What to talk to, and how it should be.

import { html, useEffect, useState } from "../../shell/view.js";
import { presetOf } from "../presets.js";

function readAsDataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

function VoiceField({ options, change }) {
  const { voices, needsReference } = presetOf(options.model);
  if (needsReference) {
    const choose = async ({ currentTarget: { files } }) =>
      change({ reference: files[0] ? await readAsDataUrl(files[0]) : null });
    return html`<label class="field">
      <span>Voice sample</span>
      <input class="input file" type="file" accept="audio/*" onChange=${choose} />
    </label>`;
  }
  return html`<label class="field">
    <span>Voice</span>
    <input
      class="input"
      id="voice"
      list="voices"
      placeholder="The model's own"
      autocomplete="off"
      value=${options.voice}
      onInput=${(event) => change({ voice: event.currentTarget.value })}
    />
    <datalist id="voices">
      ${voices.map((name) => html`<option value=${name} />`)}
    </datalist>
  </label>`;
}

// Microphones have names only after the browser was allowed to use one.
function useMicrophones(phase) {
  const [found, setFound] = useState([]);
  useEffect(() => {
    if (!navigator.mediaDevices) return undefined;
    const look = async () => {
      const devices = await navigator.mediaDevices.enumerateDevices();
      setFound(devices.filter((each) => each.kind === "audioinput" && each.label));
    };
    look();
    navigator.mediaDevices.addEventListener("devicechange", look);
    return () => navigator.mediaDevices.removeEventListener("devicechange", look);
  }, [phase]);
  return found;
}

function Fact({ name, children }) {
  return html`<div>
    <dt>${name}</dt>
    <dd>${children}</dd>
  </div>`;
}

function Facts({ shown, options }) {
  const link = `/sessions/${encodeURIComponent(shown.sessionId)}`;
  return html`<dl class="facts">
    <${Fact} name="Model">${shown.model}<//>
    ${options.voice && html`<${Fact} name="Voice">${options.voice}<//>`}
    ${shown.sessionId && html`<${Fact} name="Call"><a class="mono" id="session-link" href=${link}>${shown.sessionId}</a><//>`}
    <${Fact} name="Gateway"><span class="mono" id="gateway">${new URL(shown.gateway).host}</span><//>
    ${shown.resumes > 0 &&
    html`<${Fact} name="Resumed">
      <span id="resumes">${shown.resumes === 1 ? "once" : `${shown.resumes} times`}</span>
    <//>`}
  </dl>`;
}

function Fields({ models, options, change, phase }) {
  const microphones = useMicrophones(phase);
  return html`<label class="field">
      <span>Model</span>
      <select
        class="input"
        id="model"
        value=${options.model}
        onChange=${(event) => change({ model: event.currentTarget.value, voice: "", reference: null })}
      >
        ${models.map((name) => html`<option value=${name}>${name}</option>`)}
      </select>
    </label>
    <${VoiceField} options=${options} change=${change} />
    ${microphones.length > 1 &&
    html`<label class="field">
      <span>Microphone</span>
      <select
        class="input"
        value=${options.deviceId}
        onChange=${(event) => change({ deviceId: event.currentTarget.value })}
      >
        <option value="">The system's choice</option>
        ${microphones.map((each) => html`<option value=${each.deviceId}>${each.label}</option>`)}
      </select>
    </label>`}
    <label class="field">
      <span>Instructions</span>
      <textarea
        class="input"
        id="instructions"
        rows="2"
        placeholder="Optional: how it should behave"
        value=${options.instructions}
        onInput=${(event) => change({ instructions: event.currentTarget.value })}
      ></textarea>
    </label>`;
}

// Fields before a call, facts during one, both after it.
export function Setup({ models, options, setOptions, shown, isBusy }) {
  const change = (part) => setOptions((before) => ({ ...before, ...part }));
  return html`<section class="card" aria-labelledby="session-title">
    <div class="card-head"><h2 id="session-title">Session</h2></div>
    <div class="card-body stack">
      ${shown.gateway && html`<${Facts} shown=${shown} options=${options} />`}
      ${!isBusy && html`<div class="stack"><${Fields} ...${{ models, options, change, phase: shown.phase }} /></div>`}
    </div>
  </section>`;
}
