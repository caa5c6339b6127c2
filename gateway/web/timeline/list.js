// The page of all calls: `/sessions`.

import { html, render, useEffect, useState } from "../shell/view.js";
import { Masthead } from "../shell/shell.js";
import { length } from "./model.js";
import { sessions } from "./source.js";
import { Guarded, SignOut } from "./sign-in.js";

const EVERY_MS = 3_000;
const STATES = [
  ["", "any state"],
  ["claimed", "live"],
  ["waiting", "waiting"],
  ["closed", "closed"],
];
const AGES = [
  ["", "any time"],
  ["900", "the last 15 minutes"],
  ["3600", "the last hour"],
  ["86400", "the last day"],
  ["604800", "the last week"],
];

function ago(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const steps = [
    [86_400, "day"],
    [3_600, "hour"],
    [60, "minute"],
    [1, "second"],
  ];
  const [unit, name] = steps.find(([size]) => seconds >= size) ?? [1, "second"];
  const count = Math.floor(seconds / unit);
  return `${count} ${name}${count === 1 ? "" : "s"} ago`;
}

function Page() {
  const [filters, setFilters] = useState(() => Object.fromEntries(new URLSearchParams(location.search)));
  const [found, setFound] = useState(null);
  const [watches, setWatches] = useState(true);
  const [trouble, setTrouble] = useState("");
  const set = (name, value) => setFilters({ ...filters, [name]: value });
  const address = JSON.stringify(filters);

  useEffect(() => {
    const query = new URLSearchParams(Object.entries(filters).filter(([, value]) => value)).toString();
    history.replaceState(null, "", query ? `?${query}` : location.pathname);
    let stopped = false;
    let timer = 0;
    const load = async () => {
      try {
        const answer = await sessions({ limit: 200, ...filters });
        if (!stopped) {
          setFound(answer);
          setTrouble("");
        }
      } catch (error) {
        if (!stopped) setTrouble(error.message);
      }
      if (!stopped && watches && !filters.error) timer = setTimeout(load, EVERY_MS);
    };
    timer = setTimeout(load, found ? 150 : 0);
    return () => {
      stopped = true;
      clearTimeout(timer);
    };
  }, [address, watches]);

  const models = [...new Set((found?.data ?? []).map((one) => one.model))].sort();
  return html`
    <header class="call-head">
      <h1>Calls</h1>
      <div class="row">
        <button
          type="button"
          class="button small"
          aria-pressed=${String(watches)}
          onClick=${() => setWatches(!watches)}
        >
          <span class=${`dot ${watches ? "live" : ""}`}></span>Watch
        </button>
        <${SignOut} />
      </div>
    </header>
    <form class="card filters" role="search" onSubmit=${(event) => event.preventDefault()}>
      <label class="field grow"
        ><span>Session</span>
        <input
          class="input small"
          type="search"
          placeholder="part of its id"
          value=${filters.q ?? ""}
          onInput=${(event) => set("q", event.target.value)}
        />
      </label>
      <label class="field"
        ><span>State</span>
        <select
          class="input small"
          value=${filters.state ?? ""}
          onChange=${(event) => set("state", event.target.value)}
        >
          ${STATES.map(([value, name]) => html`<option value=${value}>${name}</option>`)}
        </select>
      </label>
      <label class="field"
        ><span>Model</span>
        <input
          class="input small"
          list="models"
          value=${filters.model ?? ""}
          placeholder="any model"
          onInput=${(event) => set("model", event.target.value)}
        />
        <datalist id="models">${models.map((name) => html`<option value=${name} />`)}</datalist>
      </label>
      <label class="field"
        ><span>Begun</span>
        <select
          class="input small"
          value=${filters.newer_than_s ?? ""}
          onChange=${(event) => set("newer_than_s", event.target.value)}
        >
          ${AGES.map(([value, name]) => html`<option value=${value}>${name}</option>`)}
        </select>
      </label>
      <label class="check"
        ><input
          type="checkbox"
          checked=${filters.error === "1"}
          onChange=${(event) => set("error", event.target.checked ? "1" : "")}
        />
        something failed</label
      >
    </form>
    ${trouble ? html`<p class="notice bad" role="alert">${trouble}</p>` : null}
    ${found?.archive_error
      ? html`<p class="notice warn" role="status">Archived calls are not listed: ${found.archive_error}</p>`
      : null}
    ${found === null && !trouble ? html`<p class="empty" role="status">Looking…</p>` : null}
    ${found ? html`<${Table} found=${found} />` : null}
  `;
}

function Table({ found }) {
  if (!found.data.length) return html`<p class="card empty" role="status">No call is like that.</p>`;
  return html`<div class="card scroll-x">
    <table class="table calls">
      <caption class="sr-only">
        ${found.total} calls, newest first
      </caption>
      <thead>
        <tr>
          <th scope="col">Session</th>
          <th scope="col">State</th>
          <th scope="col">Model</th>
          <th scope="col">Begun</th>
          <th scope="col">Length</th>
          <th scope="col" class="only-wide">Socket</th>
          <th scope="col" class="only-wide">Worker</th>
          <th scope="col" class="only-wide">Last seq</th>
        </tr>
      </thead>
      <tbody>
        ${found.data.map(
          (one) =>
            html`<tr key=${one.session}>
              <td class="mono">
                <a href=${`/sessions/${encodeURIComponent(one.incarnation ? `${one.id}~${one.incarnation}` : one.id)}`}
                  >${one.id}</a
                >${one.error ? html` <span class="badge bad">${one.error}</span>` : null}
              </td>
              <td>
                <${State} name=${one.state} />${one.archived ? html` <span class="badge">archived</span>` : null}
              </td>
              <td>${one.model}</td>
              <td title=${one.begun_ms ? new Date(one.begun_ms).toLocaleString() : ""}>${ago(one.age_s)}</td>
              <td class="number">${length(one.length_ms)}</td>
              <td class="only-wide mono">${one.socket ?? "–"}</td>
              <td class="only-wide mono">${one.worker ?? "–"}</td>
              <td class="only-wide number">${one.output.split("-")[1]}</td>
            </tr>`,
        )}
      </tbody>
    </table>
    ${found.total > found.data.length
      ? html`<p class="faint small card-body">The newest ${found.data.length} of ${found.total}.</p>`
      : null}
  </div>`;
}

function State({ name }) {
  if (name === "claimed") return html`<span class="badge good"><span class="dot live"></span>live</span>`;
  return html`<span class=${`badge ${name === "waiting" ? "warn" : ""}`}>${name}</span>`;
}

render(
  html`<${Masthead} current="/sessions" wide=${true} />
    <main id="main" class="timeline-page">
      <${Guarded}><${Page} /><//>
    </main>`,
  document.body,
);
