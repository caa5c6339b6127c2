// The page: the stage at the left, what belongs to it at the right.

import { Masthead } from "../shell/shell.js";
import { html, useCallback, useEffect, useRef, useState } from "../shell/view.js";
import { Call } from "./call.js";
import { askDeployment, firstModel, gatewayUrls } from "./deployment.js";
import { EventsPanel } from "./view/events-panel.js";
import { ResponseTime } from "./view/response-time.js";
import { Setup } from "./view/setup.js";
import { Stage } from "./view/stage.js";
import { connectionOf, whyNoMicrophone } from "./view/words.js";

const ASK_AGAIN_MS = 3_000;
const NOTHING = { phase: "idle", conversation: { turns: [] }, rows: [], latencies: [] };

// What there is to talk to; asked again while there is nothing.
function useDeployment() {
  const [deployment, setDeployment] = useState(null);
  const isEmpty = (deployment?.models.length ?? 0) === 0;
  useEffect(() => {
    if (!isEmpty) return undefined;
    const ask = async () => setDeployment(await askDeployment());
    const timer = setInterval(ask, ASK_AGAIN_MS);
    if (deployment === null) ask();
    return () => clearInterval(timer);
  }, [isEmpty]);
  return deployment;
}

// A call and its snapshot, taken anew at most once a frame.
function useCall() {
  const [shown, show] = useState(NOTHING);
  const call = useRef(null);
  const isDue = useRef(false);
  const changed = useCallback(() => {
    if (isDue.current) return;
    isDue.current = true;
    // A timer, not a frame: a page in the background draws no frames, and its call goes on.
    setTimeout(() => {
      isDue.current = false;
      if (call.current) show(call.current.snapshot);
    }, 30);
  }, []);
  const start = useCallback(async (gateways, options) => {
    const made = new Call({ urls: gatewayUrls(gateways, location.href), options, changed });
    call.current = made;
    show({ ...NOTHING, phase: "opening" });
    try {
      await made.start();
    } catch (error) {
      made.end();
      call.current = null;
      show({ ...NOTHING, notice: { code: error.name, message: whyNoMicrophone(error) } });
    }
  }, []);
  return { call, shown, start };
}

function useKeys(call, shown) {
  useEffect(() => {
    const pressed = (event) => {
      if (!call.current || event.ctrlKey || event.metaKey || event.altKey) return;
      const isTyping = event.target.closest?.("input, textarea, select");
      if (event.key === "Escape") call.current.interrupt();
      else if (event.key.toLowerCase() === "m" && !isTyping && shown.hasMicrophone) {
        call.current.setMuted(!call.current.isMuted);
      }
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [shown.hasMicrophone]);
}

// What a screen reader is told without being asked: how the call stands, and what the caller was understood to say.
function Announcer({ shown }) {
  const said = shown.conversation.turns.findLast((turn) => turn.who === "caller" && turn.state === "done");
  const cut = shown.conversation.turns.at(-1)?.state === "interrupted" ? "The answer was interrupted." : "";
  return html`<div class="sr-only" aria-live="polite">
    <p>${connectionOf(shown).text}</p>
    <p>${said?.text ? `You said: ${said.text}` : ""}</p>
    <p>${cut}</p>
  </div>`;
}

function ConnectionBadge({ shown }) {
  const { text, kind, isLive } = connectionOf(shown);
  return html`<span class=${`badge ${kind}`} id="connection" data-phase=${shown.phase}>
    <span class=${`dot ${isLive ? "live" : ""}`}></span>${text}
  </span>`;
}

export function App() {
  const deployment = useDeployment();
  const models = deployment?.models ?? [];
  const { call, shown, start } = useCall();
  const [wishes, setOptions] = useState({ model: null, voice: "", instructions: "", reference: null, deviceId: "" });
  const options = { ...wishes, model: wishes.model ?? (deployment ? firstModel(deployment) : "") };
  const isBusy = !["idle", "ended"].includes(shown.phase);
  useKeys(call, shown);
  useEffect(() => {
    const leave = () => call.current?.end();
    addEventListener("pagehide", leave);
    return () => removeEventListener("pagehide", leave);
  }, []);
  useEffect(() => {
    document.title = isBusy ? "In a call · duplex_es" : "Talk · duplex_es";
  }, [isBusy]);
  return html`<${Masthead} current="/"><${ConnectionBadge} shown=${shown} /><//>
    <main id="main" class="talk">
      <${Stage}
        call=${call}
        shown=${shown}
        canStart=${models.length > 0}
        isLooking=${deployment === null}
        start=${(useMicrophone) => start(deployment.gateways, { ...options, useMicrophone })}
      />
      <aside class="side stack" aria-label="About this call">
        <${Setup} models=${models} options=${options} setOptions=${setOptions} shown=${shown} isBusy=${isBusy} />
        <${ResponseTime} shown=${shown} />
        <${EventsPanel} rows=${shown.rows} />
      </aside>
    </main>
    <${Announcer} shown=${shown} />`;
}
