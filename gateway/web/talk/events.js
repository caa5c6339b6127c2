// Server events as they come: how to read one, and what the fields of all of them mean.

// The event in a text frame, `null` for anything that is none.
export function parseEvent(text) {
  if (typeof text !== "string") return null;
  try {
    const event = JSON.parse(text);
    return event !== null && typeof event === "object" && typeof event.type === "string" ? event : null;
  } catch {
    return null;
  }
}

// The place of an event in its session, from 1; `null` for what is not replayed.
export function seqOf(event) {
  return Number.isInteger(event.server_event_seq) ? event.server_event_seq : null;
}

// The response an event belongs to, `null` if it belongs to none.
export function responseIdOf(event) {
  return event.response_id ?? event.response?.id ?? null;
}

// An error in the nested or in the flat envelope: `{code, message, eventId, retryAfterMs}`.
export function errorOf(event) {
  const body = typeof event.error === "object" && event.error !== null ? event.error : event;
  const flat = typeof event.error === "string" ? event.error : null;
  return {
    code: body.code ?? null,
    message: flat ?? body.message ?? "The server gave no reason.",
    eventId: body.event_id ?? null,
    retryAfterMs: typeof body.retry_after_ms === "number" ? body.retry_after_ms : null,
  };
}

// The same event with its sound replaced by its size, for lists and for memory.
export function withoutSound(event) {
  const name = event.type.endsWith("audio.delta") ? "delta" : event.type === "input_audio_buffer.append" ? "audio" : null;
  if (name === null || typeof event[name] !== "string") return event;
  return { ...event, [name]: `(${Math.floor((event[name].length * 3) / 4)} bytes)` };
}
