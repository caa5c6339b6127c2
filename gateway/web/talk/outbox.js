// What was said and may not have arrived: kept until the server proves that it has it, said again if it has not.

const LIMIT_CHARS = 4 * 1024 * 1024;

export class Outbox {
  // At most `limitChars` are held; beyond it the oldest are let go and counted in `forgotten`.
  constructor(limitChars = LIMIT_CHARS) {
    this.forgotten = 0;
    this._limit = limitChars;
    this._size = 0;
    this._said = [];
  }

  // Hold one more message. A probe is answered in its turn, which proves all before it.
  add(eventId, message, { isProbe = false } = {}) {
    this._said.push({ eventId, message, isProbe, wasSent: false });
    this._size += message.length;
    while (this._size > this._limit && this._said.length > 1) {
      this._drop(1);
      this.forgotten += 1;
    }
  }

  // The message went out on some socket.
  sent(eventId) {
    const said = this._said.findLast((each) => each.eventId === eventId);
    if (said) said.wasSent = true;
  }

  // The oldest probe that went out was answered: it and all before it have arrived.
  probeAnswered() {
    const place = this._said.findIndex((each) => each.isProbe && each.wasSent);
    if (place >= 0) this._drop(place + 1);
  }

  // Everything up to `eventId` has arrived, nothing after it. All that is held came after an id that is not.
  arrived(eventId) {
    const place = this._said.findLastIndex((each) => each.eventId === eventId);
    if (place >= 0) this._drop(place + 1);
  }

  // Nobody can say what arrived: keep what never went out.
  forgetSent() {
    this._said = this._said.filter((each) => !each.wasSent);
    this._size = this._said.reduce((size, each) => size + each.message.length, 0);
  }

  // All that is held, oldest first: `{eventId, message}`.
  messages() {
    return this._said.map(({ eventId, message }) => ({ eventId, message }));
  }

  _drop(count) {
    for (const each of this._said.splice(0, count)) this._size -= each.message.length;
  }
}
