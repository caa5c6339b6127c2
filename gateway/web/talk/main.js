// Starts the page.

import { html, render } from "../shell/view.js";
import { App } from "./app.js";

render(html`<${App} />`, document.body);
