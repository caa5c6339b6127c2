// The page of one call: `/sessions/ID`.

import { html, render, useEffect, useState } from "../shell/view.js";
import { Masthead } from "../shell/shell.js";
import { Timeline } from "./app.js";
import { Numbers } from "./words.js";
import { clock, fileName, readLink, shellWord } from "./model.js";
import { Remote, sessions } from "./source.js";
import { Guarded } from "./sign-in.js";

const session = decodeURIComponent(location.pathname.split("/").filter(Boolean)[1] ?? "");
document.title = `${session} · duplex_es`;

const STATES = { claimed: ["good", "live"], waiting: ["warn", "waiting for a worker"], closed: ["", "closed"] };

function Page() {
  const [call, setCall] = useState(null);
  const [compare, setCompare] = useState(null);
  const [trouble, setTrouble] = useState("");
  const [link] = useState(() => readLink(location.hash));

  useEffect(() => {
    const source = new Remote(session);
    source
      .document()
      .then((doc) => setCall({ source, doc }))
      .catch((error) => (error.status === 401 ? location.reload() : setTrouble(error.message)));
  }, []);
  useEffect(() => {
    if (call && link.other) begin(link.other);
  }, [call !== null]);

  const begin = async (other) => {
    setTrouble("");
    try {
      const source = new Remote(other);
      const [doc, divergence] = await Promise.all([source.document(), call.source.divergence(other)]);
      const parted = divergence.first_divergence;
      const at = parted
        ? [await timeOf(call.source, call.doc, parted.a_id), await timeOf(source, doc, parted.b_id)]
        : null;
      setCompare({ session: other, source, doc, divergence: { ...divergence, at }, end: () => setCompare(null) });
    } catch (error) {
      setTrouble(`${other}: ${error.message}`);
    }
  };

  if (trouble && !call) return html`<p class="notice bad" role="alert">${trouble}</p>`;
  if (!call) return html`<p class="empty" role="status">Opening the call…</p>`;
  const { doc, source } = call;
  const [tone, state] = STATES[doc.state] ?? ["", doc.state];
  return html`
    <header class="call-head">
      <div>
        <p class="faint small"><a href="/sessions">Calls</a> /</p>
        <h1 class="mono">${doc.session}</h1>
      </div>
      <div class="row">
        <span class=${`badge ${tone}`}
          >${tone === "good" ? html`<span class="dot live"></span>` : null}${state}${doc.closed ? `: ${doc.closed}` : ""}</span
        >
        <span class="badge">${doc.model}</span>
        <span class="badge">${new Date(doc.start_ms).toLocaleString()}</span>
        ${source.isArchived ? html`<span class="badge">archived</span>` : null}
        ${doc.incarnation ? html`<span class="badge">life ${doc.incarnation + 1}</span>` : null}
        ${doc.first_seq > 1 ? html`<span class="badge warn">before seq ${doc.first_seq}: trimmed</span>` : null}
      </div>
      <${Actions} doc=${doc} source=${source} begin=${begin} />
    </header>
    ${trouble ? html`<p class="notice bad" role="alert">${trouble}</p>` : null}
    <${Numbers} doc=${doc} />
    <${Timeline} source=${source} doc=${doc} link=${link} compare=${compare} />
  `;
}

async function timeOf(source, doc, id) {
  const seq = Number(id.split("-")[1]);
  if (!seq) return doc.length_ms;
  try {
    return (await source.record({ stream: "output", seq })).at_ms - doc.start_ms;
  } catch {
    return doc.length_ms;
  }
}

function Actions({ doc, source, begin }) {
  const [copied, setCopied] = useState("");
  const copy = async (what, text) => {
    // Only pages of https and of this machine may write to the clipboard.
    if (!navigator.clipboard) return void prompt("Copy this:", text);
    await navigator.clipboard.writeText(text);
    setCopied(what);
    setTimeout(() => setCopied(""), 2_000);
  };
  const service = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/v1/realtime`;
  const file = `--file ${shellWord(fileName(doc.session, doc.incarnation))}`;
  const replay = `duplex-es log replay ${source.isArchived ? file : shellWord(doc.session)} --to ${service}`;
  return html`<div class="row actions">
    <button type="button" class="button small" onClick=${() => copy("link", location.href)}>
      ${copied === "link" ? "Copied" : "Copy link"}
    </button>
    <a class="button small" href=${source.download} download>Download .dxlog</a>
    <details class="menu">
      <summary class="button small">Replay this</summary>
      <div class="card card-body stack">
        <p class="small">
          ${source.isArchived
            ? "With the downloaded file"
            : html`In a shell with <code>DUPLEX_ES_REDIS_URL</code> set`}, this says everything again that the caller
          said, to this service:
        </p>
        <pre class="raw small" tabindex="0">${replay}</pre>
        <p class="small">
          And this decides everything again from the downloaded file, and stops at the first decision that is another:
        </p>
        <pre class="raw small" tabindex="0">
duplex-es log replay ${file} --check</pre>
        <button type="button" class="button small" onClick=${() => copy("replay", replay)}>
          ${copied === "replay" ? "Copied" : "Copy the first"}
        </button>
      </div>
    </details>
    <${Against} session=${doc.session} begin=${begin} />
  </div>`;
}

function Against({ session: mine, begin }) {
  const [known, setKnown] = useState([]);
  const [text, setText] = useState("");
  const load = () => {
    if (!known.length)
      sessions({ limit: 200 })
        .then((found) => setKnown(found.data.map((one) => one.id).filter((id) => id !== mine)))
        .catch(() => {});
  };
  const go = (event) => {
    event.preventDefault();
    if (text.trim()) begin(text.trim());
  };
  return html`<form class="jump" onSubmit=${go}>
    <input
      class="input small"
      list="known"
      placeholder="Compare with…"
      aria-label="Compare with the session"
      value=${text}
      onFocus=${load}
      onInput=${(event) => setText(event.target.value)}
    />
    <datalist id="known">${known.map((id) => html`<option value=${id} />`)}</datalist>
    <button type="submit" class="button small">Compare</button>
  </form>`;
}

render(
  html`<${Masthead} current="/sessions" wide=${true} />
    <main id="main" class="wide timeline-page">
      <${Guarded}><${Page} /><//>
    </main>`,
  document.body,
);
