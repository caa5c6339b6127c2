// Starts the page: asks what there is to talk to, then shows it.

import { html, render } from "../shared/view.js";
import { App } from "./app.js";

// The answer's JSON, or `fallback` when there is none to have.
async function read(path, fallback) {
  try {
    const response = await fetch(path, { cache: "no-store" });
    return response.ok ? await response.json() : fallback;
  } catch {
    return fallback;
  }
}

const [config, models] = await Promise.all([
  read("/web/config.json", { gateways: [], default_model: "" }),
  read("/v1/models", { data: [] }),
]);
render(html`<${App} config=${config} models=${models.data.map((each) => each.id)} />`, document.body);
