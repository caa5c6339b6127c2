// Nothing of a recorded call is shown to whoever does not know the operator token.

import { html, useEffect, useState } from "../shell/view.js";
import { operator } from "./source.js";

// Its children once the person is signed in; before that, the way to it.
export function Guarded({ children }) {
  const [state, setState] = useState(null);
  const [trouble, setTrouble] = useState("");
  const look = () =>
    operator
      .status()
      .then(setState)
      .catch((error) => setTrouble(error.message));
  useEffect(() => {
    look();
  }, []);
  if (trouble) return html`<p class="notice bad" role="alert">${trouble}</p>`;
  if (!state) return null;
  if (state.signed_in) return children;
  if (!state.enabled) {
    return html`<section class="card sign-in" role="status">
      <div class="card-head"><h1>Recorded calls are closed here</h1></div>
      <div class="card-body stack">
        <p>
          What people said is personal data, so nothing of it can be read unless whoever runs this service allows it.
        </p>
        <p>
          Start the gateway with <code>--operator-token-file FILE</code>; the token in that file then opens this page.
        </p>
      </div>
    </section>`;
  }
  return html`<${SignIn} done=${look} />`;
}

function SignIn({ done }) {
  const [token, setToken] = useState("");
  const [trouble, setTrouble] = useState("");
  const [isAsking, setAsking] = useState(false);
  const go = async (event) => {
    event.preventDefault();
    setAsking(true);
    setTrouble("");
    try {
      await operator.signIn(token);
      await done();
    } catch (error) {
      setTrouble(error.message);
    }
    setAsking(false);
  };
  return html`<form class="card sign-in" onSubmit=${go}>
    <div class="card-head"><h1>Sign in to read calls</h1></div>
    <div class="card-body stack">
      <label class="field">
        <span>Operator token</span>
        <input
          class="input"
          type="password"
          name="token"
          autocomplete="current-password"
          required
          value=${token}
          onInput=${(event) => setToken(event.target.value)}
        />
      </label>
      ${trouble ? html`<p class="notice bad" role="alert">${trouble}</p>` : null}
      <div class="row">
        <button type="submit" class="button primary" disabled=${isAsking}>${isAsking ? "Asking…" : "Sign in"}</button>
      </div>
      <p class="faint small">It stays in this browser for twelve hours, as a cookie that no script can read.</p>
    </div>
  </form>`;
}

// For the header: forget the cookie.
export function SignOut() {
  const go = async () => {
    await operator.signOut();
    location.reload();
  };
  return html`<button type="button" class="button small ghost" onClick=${go}>Sign out</button>`;
}
