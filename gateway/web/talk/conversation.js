// The conversation as a page shows it, made of server events: `fold(state, event)` gives the next state.
//
// A turn is `{key, who, text, state, …}`. `who`: caller, assistant or tool. `state`: open while it grows, then done,
// interrupted or failed. An assistant's turn has `heardMs`, `endMs` and `marks` (where in its sound its text lies).

export const EMPTY = Object.freeze({ turns: [], isCallerSpeaking: false, answering: null });

export function fold(state, event) {
  const change = CHANGES[event.type];
  return change ? change(state, event) : state;
}

// The caller typed something; the server will name it by `itemId`.
export function typed(state, itemId, text) {
  return put(state, { key: itemId, who: "caller", text, state: "done", isTyped: true });
}

// The answer `responseId` was heard up to `ms`.
export function heard(state, responseId, ms) {
  const turn = state.turns.find((each) => each.key === responseId);
  return turn && ms > turn.heardMs ? put(state, { ...turn, heardMs: ms }) : state;
}

// How many characters of an assistant's turn were heard by now.
export function heardCharacters(turn) {
  if (!turn.hasSound) return turn.text.length;
  let [before, after] = [{ chars: 0, ms: 0 }, null];
  for (const mark of turn.marks) {
    if (mark.ms > turn.heardMs) {
      after = mark;
      break;
    }
    before = mark;
  }
  if (after === null) return turn.heardMs >= turn.endMs ? turn.text.length : Math.min(before.chars, turn.text.length);
  const share = (turn.heardMs - before.ms) / (after.ms - before.ms);
  return wordEnd(turn.text, Math.round(before.chars + (after.chars - before.chars) * share));
}

// A word that has begun is shown whole: nobody hears half of one.
function wordEnd(text, at) {
  if (at === 0 || /\s/.test(text[at - 1])) return at;
  const space = text.slice(at).search(/\s/);
  return space < 0 ? text.length : Math.min(text.length, at + space);
}

const CHANGES = {
  "input_audio_buffer.speech_started": (state, { item_id: key }) =>
    put({ ...withoutEmpty(state), isCallerSpeaking: true }, { key, who: "caller", text: "", state: "open" }),

  "input_audio_buffer.speech_stopped": (state) => ({ ...state, isCallerSpeaking: false }),

  "conversation.item.added": (state, { item }) => {
    if (item?.role !== "user") return state;
    const known = state.turns.find((each) => each.key === item.id);
    const text = textOf(item) || known?.text || "";
    return put(state, { ...known, key: item.id, who: "caller", text, state: "done", isItem: true });
  },

  "conversation.item.input_audio_transcription.delta": (state, { item_id: key, delta }) => {
    const turn = state.turns.find((each) => each.key === key);
    return turn ? put(state, { ...turn, text: turn.text + delta }) : state;
  },

  "conversation.item.input_audio_transcription.completed": (state, { item_id: key, transcript }) => {
    const turn = state.turns.find((each) => each.key === key);
    return put(state, { ...turn, key, who: "caller", text: transcript, state: "done", isItem: true });
  },

  "conversation.item.deleted": (state, { item_id: key }) => ({
    ...state,
    turns: state.turns.filter((each) => each.key !== key),
  }),

  "response.created": (state, { response_id: key }) => ({ ...withoutEmpty(state), answering: key }),
  "response.output_audio.delta": (state, event) => {
    const turn = answerOf(state, event);
    const metadata = event.metadata ?? {};
    const marks = (metadata.audio_text_marks ?? []).map((mark) => ({ chars: mark.text_chars, ms: mark.audio_end_ms }));
    const endMs = metadata.playback?.generated_ms ?? metadata.audio_duration_ms ?? turn.endMs;
    return put(state, { ...turn, hasSound: true, endMs: Math.max(turn.endMs, endMs), marks: joined(turn.marks, marks) });
  },
  "response.output_audio_transcript.delta": grow,
  "response.output_text.delta": grow,
  "response.output_audio_transcript.done": (state, event) => settle(state, event, event.transcript),
  "response.output_text.done": (state, event) => settle(state, event, event.text),

  "response.output_item.added": (state, { item, response_id: responseId }) =>
    item?.type === "function_call"
      ? put(state, { key: item.id, who: "tool", name: item.name, text: item.arguments ?? "", state: "open", responseId })
      : state,
  "response.function_call_arguments.done": (state, event) => {
    const turn = state.turns.find((each) => each.key === event.item_id);
    return turn ? put(state, { ...turn, text: event.arguments, state: "done" }) : state;
  },

  "response.done": (state, event) => {
    const ended = { ...state, answering: state.answering === event.response_id ? null : state.answering };
    const turn = state.turns.find((each) => each.key === event.response_id);
    if (!turn) return ended;
    const { status, status_details: details } = event.response;
    const outcome = { completed: "done", cancelled: "interrupted" }[status] ?? "failed";
    return put(ended, { ...turn, state: outcome, reason: details?.reason ?? details?.error?.message ?? null });
  },
};

function grow(state, event) {
  const turn = answerOf(state, event);
  return put(state, { ...turn, text: turn.text + event.delta });
}

function settle(state, event, text) {
  const turn = state.turns.find((each) => each.key === event.response_id);
  return turn && text ? put(state, { ...turn, text }) : state;
}

function answerOf(state, { response_id: key }) {
  const made = { key, who: "assistant", text: "", state: "open", hasSound: false, heardMs: 0, endMs: 0, marks: [] };
  return state.turns.find((each) => each.key === key) ?? made;
}

// Replaces the turn of that key, or adds it at the end.
function put(state, turn) {
  const at = state.turns.findIndex((each) => each.key === turn.key);
  const turns = at < 0 ? [...state.turns, turn] : state.turns.with(at, turn);
  return { ...state, turns };
}

// Speech that came to nothing leaves no trace.
function withoutEmpty(state) {
  const turns = state.turns.filter((each) => each.who !== "caller" || each.text || each.isItem);
  return turns.length === state.turns.length ? state : { ...state, turns };
}

function joined(marks, more) {
  const last = marks.at(-1)?.ms ?? 0;
  return [...marks, ...more.filter((mark) => mark.ms > last)];
}

function textOf(item) {
  return (item.content ?? []).map((part) => part.transcript ?? part.text ?? "").join(" ").trim();
}
