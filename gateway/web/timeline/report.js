// The page that `duplex-es log report` writes: the same timeline, from what is in the page itself.

import { html, render } from "../shell/view.js";
import { Timeline } from "./app.js";
import { Numbers } from "./words.js";
import { readLink } from "./model.js";
import { Embedded } from "./source.js";

async function show() {
  const source = await Embedded.open(document.getElementById("call").textContent);
  const doc = await source.document();
  const begun = new Date(doc.start_ms).toLocaleString();
  const page = html`<main id="main" class="wide timeline-page">
    <header class="call-head">
      <div>
        <p class="faint small">duplex_es, report of a call</p>
        <h1 class="mono">${doc.session}</h1>
      </div>
      <div class="row">
        <span class="badge">${doc.closed ? `${doc.state}: ${doc.closed}` : doc.state}</span>
        <span class="badge">${doc.model}</span>
        <span class="badge">${begun}</span>
        ${source.hasSound ? null : html`<span class="badge">without sound</span>`}
      </div>
    </header>
    <${Numbers} doc=${doc} />
    <${Timeline} source=${source} doc=${doc} link=${readLink(location.hash)} />
  </main>`;
  render(page, document.body);
}

show().catch((error) => {
  document.body.textContent = `This report cannot be shown: ${error.message}`;
});
