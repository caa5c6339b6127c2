// What states and failures are called on the page.

const PHASES = {
  idle: { text: "Not connected", kind: "", isLive: false },
  opening: { text: "Connecting", kind: "warn", isLive: true },
  open: { text: "Connected", kind: "good", isLive: true },
  resuming: { text: "Reconnecting", kind: "warn", isLive: true },
  closing: { text: "Ending", kind: "warn", isLive: true },
  ended: { text: "Call ended", kind: "", isLive: false },
};

const ENDINGS = {
  no_gateway: "No gateway answered.",
  connection_lost: "The connection was lost and could not be brought back.",
  resync_required: "The connection was lost for too long to go on where it was.",
  timeout: "The call ended because nothing was heard for a long time.",
  duplex_session_busy: "All places are taken at the moment. Try again in a minute.",
  resource_exhausted: "All places are taken at the moment. Try again in a minute.",
  ref_audio_required: "This model needs a voice sample. Choose one under Session.",
  "session.replaced": "The call went on in another window.",
  session_resume_expired: "The connection was lost for too long: the call has ended.",
};

// How the connection stands: `{text, kind, isLive}`.
export function connectionOf({ phase }) {
  return PHASES[phase] ?? PHASES.idle;
}

// Why a call ended, `null` when it ended as the caller wished.
export function endingOf({ phase, endReason }) {
  if (phase !== "ended" || endReason === "session_close" || endReason === "left") return null;
  return ENDINGS[endReason] ?? `The call ended: ${endReason}.`;
}

// Why there is no microphone, and what to do about it.
export function whyNoMicrophone(error) {
  if (error.name === "NotAllowedError") {
    return "The browser was not allowed to use the microphone. Allow it in the address bar, or start without one.";
  }
  if (error.name === "NotFoundError" || error.name === "OverconstrainedError") {
    return "No microphone was found. Connect one, or start without one and type.";
  }
  if (!globalThis.isSecureContext) {
    return "Browsers give the microphone to https:// pages and to localhost only. Start without one, or use https.";
  }
  return `The call could not be started: ${error.message || error.name}.`;
}

// A duration as a person reads it: `0.48 s`, `12 s`, `1:05`.
export function durationOf(ms) {
  const seconds = ms / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  return `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
}
