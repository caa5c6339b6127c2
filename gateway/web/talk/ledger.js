// What was heard of each answer, and when to tell the server.

const REPORT_MS = 500;

export class PlaybackLedger {
  constructor() {
    this._answers = new Map();
  }

  // A piece of an answer was queued; the answer is now `endMs` long.
  queued(responseId, itemId, endMs) {
    const answer = this._answers.get(responseId) ?? { itemId, heardMs: 0, toldMs: 0, endMs: 0, isOver: false, toldAt: 0 };
    this._answers.set(responseId, { ...answer, itemId: itemId ?? answer.itemId, endMs });
  }

  // The answer was heard up to `ms`. Never goes back.
  heard(responseId, ms) {
    const answer = this._answers.get(responseId);
    if (answer) answer.heardMs = Math.max(answer.heardMs, Math.min(ms, answer.endMs));
  }

  // Nothing more comes of the answer.
  over(responseId) {
    const answer = this._answers.get(responseId);
    if (answer) answer.isOver = true;
  }

  // The answer was cut here: nothing more of it will be heard.
  cut(responseId) {
    const answer = this._answers.get(responseId);
    if (answer) Object.assign(answer, { isOver: true, endMs: answer.heardMs });
  }

  heardMs(responseId) {
    return this._answers.get(responseId)?.heardMs ?? 0;
  }

  // Answers that are queued but not wholly heard.
  get open() {
    return [...this._answers].filter(([, answer]) => answer.heardMs < answer.endMs).map(([id]) => id);
  }

  // The reports that are due: every half second of an answer, and at once when it was heard to its end.
  due(nowMs) {
    const commands = [];
    for (const [responseId, answer] of this._answers) {
      const isWhole = answer.isOver && answer.heardMs >= answer.endMs;
      const isNews = Math.floor(answer.heardMs) > answer.toldMs;
      if (isNews && (isWhole || nowMs - answer.toldAt >= REPORT_MS)) {
        Object.assign(answer, { toldMs: Math.floor(answer.heardMs), toldAt: nowMs });
        commands.push(report(responseId, answer));
      }
      if (isWhole) this._answers.delete(responseId);
    }
    return commands;
  }
}

function report(responseId, { itemId, toldMs }) {
  return {
    type: "playback.ack",
    response_id: responseId,
    ...(itemId ? { item_id: itemId } : {}),
    played_ms: toldMs,
    committed_ms: toldMs,
  };
}
