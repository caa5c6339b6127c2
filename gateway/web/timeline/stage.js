// One call on a canvas, for a person to move over. It keeps no state that a page needs: it tells, by `events`.

import { colors, onColorsChanged } from "../shell/colors.js";
import { Drawing, layout, RULER, TOKENS } from "./lanes.js";
import { kept, lengthOf, spanOf, wordsOf, zoomed } from "./model.js";
import { Peaks } from "./peaks.js";

export class Stage extends Drawing {
  // `events`: `view(view)`, `cursor(at, byHand)`, `select(target)` and, if it likes, `hover(hover)`.
  constructor(canvas, overview, source, doc, events) {
    super();
    Object.assign(this, { canvas, overview, source, doc, events });
    this.generated = false;
    this.cursor = 0;
    this.hover = null;
    this.selected = null;
    this.divergedAt = null;
    this.hits = [];
    this.pointers = new Map();
    this.frames = [];
    this.peaks = new Peaks(
      (lane, level, numbers) => source.peaks(lane, level, numbers),
      () => {
        this.strips = null;
        this.dirty();
      },
    );
    this.take(doc);
    this.view = kept([0, this.lasts], this.lasts);
    this.stops = [onColorsChanged(() => this.recolor())];
    this.tones = colors(...TOKENS);
    this.listen();
    this.observer = new ResizeObserver(() => this.dirty());
    this.observer.observe(canvas);
    this.dirty();
  }

  close() {
    this.observer.disconnect();
    for (const stop of this.stops) stop();
    cancelAnimationFrame(this.frame);
  }

  // A newer document of the same call.
  take(doc) {
    const before = this.lasts ?? 0;
    this.strips = null;
    this.doc = doc;
    this.lasts = lengthOf(doc, this.generated);
    this.layout = layout(doc);
    this.spoken = doc.replies.map((reply) => wordsOf(reply, this.generated));
    const spans = doc.replies.map((reply) => spanOf(reply, this.generated));
    // What was never heard of an answer is drawn up to the next one.
    this.spans = spans.map(([from, to], index) => [from, Math.max(from, Math.min(to, spans[index + 1]?.[0] ?? to))]);
    this.peaks.forget(Math.max(0, before - 60_000));
    this.canvas.style.height = `${this.layout.height}px`;
    this.dirty();
  }

  setGenerated(generated) {
    if (generated === this.generated) return;
    this.generated = generated;
    this.take(this.doc);
    this.show(this.view);
  }

  recolor() {
    this.tones = colors(...TOKENS);
    this.strips = null;
    this.dirty();
  }

  show(view) {
    this.view = kept(view, this.lasts);
    this.dirty();
  }

  // Moves the view so that `at` is in it.
  reveal(at) {
    const [from, to] = this.view;
    if (at >= from && at <= to) return;
    const span = to - from;
    this.show([at - span / 2, at + span / 2]);
    this.events.view(this.view);
  }

  dirty() {
    if (this.frame) return;
    this.frame = requestAnimationFrame((now) => {
      this.frame = 0;
      this.frames.push(now);
      if (this.frames.length > 600) this.frames.shift();
      this.draw();
    });
  }

  x(ms) {
    return ((ms - this.view[0]) / (this.view[1] - this.view[0])) * this.width;
  }

  ms(x) {
    return this.view[0] + (x / this.width) * (this.view[1] - this.view[0]);
  }

  // -- a person ------------------------------------------------------------------------------------------------------

  listen() {
    const on = (element, name, answer, options) => {
      element.addEventListener(name, answer, options);
      this.stops.push(() => element.removeEventListener(name, answer, options));
    };
    on(this.canvas, "wheel", (event) => this.wheel(event), { passive: false });
    on(this.canvas, "pointerdown", (event) => this.down(event));
    on(this.canvas, "pointermove", (event) => this.move(event));
    on(this.canvas, "pointerup", (event) => this.up(event));
    on(this.canvas, "pointercancel", (event) => this.pointers.delete(event.pointerId));
    on(this.canvas, "pointerleave", () => {
      this.hover = null;
      this.events.hover?.(null);
      this.dirty();
    });
    on(this.canvas, "dblclick", (event) => this.zoom(0.35, this.ms(event.offsetX)));
    if (!this.overview) return;
    on(this.overview, "pointerdown", (event) => {
      this.overview.setPointerCapture(event.pointerId);
      this.brush(event);
    });
    on(this.overview, "pointermove", (event) => event.buttons && this.brush(event));
  }

  brush(event) {
    const at = (event.offsetX / this.overview.clientWidth) * this.lasts * 1.02;
    const span = this.view[1] - this.view[0];
    this.moveTo([at - span / 2, at + span / 2]);
  }

  moveTo(view) {
    this.show(view);
    this.events.view(this.view);
  }

  zoom(factor, around = this.cursor) {
    this.moveTo(zoomed(this.view, factor, around, this.lasts));
  }

  pan(part) {
    const span = this.view[1] - this.view[0];
    this.moveTo([this.view[0] + part * span, this.view[1] + part * span]);
  }

  wheel(event) {
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 16 : 1;
    const across = event.shiftKey && !event.deltaX ? event.deltaY : event.deltaX;
    if (!event.ctrlKey && Math.abs(across) > Math.abs(event.shiftKey ? 0 : event.deltaY)) {
      this.pan((across * unit) / this.width);
      return;
    }
    const strength = event.ctrlKey ? 0.012 : 0.0022;
    this.zoom(Math.exp(event.deltaY * unit * strength), this.ms(event.offsetX));
  }

  down(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY, start: event.offsetX });
    this.dragged = false;
    this.scrubs = event.offsetY < RULER;
    if (this.scrubs) this.events.cursor(Math.max(0, this.ms(event.offsetX)), true);
  }

  move(event) {
    const held = this.pointers.get(event.pointerId);
    if (!held) {
      this.hover = { x: event.offsetX, y: event.offsetY, hit: this.hitAt(event.offsetX, event.offsetY) };
      this.canvas.style.cursor = this.hover.hit ? "pointer" : event.offsetY < RULER ? "ew-resize" : "grab";
      this.events.hover?.(this.hover);
      this.dirty();
      return;
    }
    if (this.pointers.size === 2) {
      const [other] = [...this.pointers.entries()].filter(([id]) => id !== event.pointerId).map(([, one]) => one);
      const before = Math.abs(held.x - other.x) || 1;
      const after = Math.abs(event.offsetX - other.x) || 1;
      this.dragged = true;
      this.zoom(before / after, this.ms((event.offsetX + other.x) / 2));
    } else if (this.scrubs) {
      this.events.cursor(Math.min(Math.max(0, this.ms(event.offsetX)), this.lasts), true);
    } else if (this.dragged || Math.abs(event.offsetX - held.start) > 4) {
      this.dragged = true;
      this.canvas.style.cursor = "grabbing";
      this.pan((held.x - event.offsetX) / this.width);
    }
    held.x = event.offsetX;
    held.y = event.offsetY;
  }

  up(event) {
    const held = this.pointers.get(event.pointerId);
    this.pointers.delete(event.pointerId);
    if (!held || this.dragged || this.scrubs) return;
    const at = Math.min(Math.max(0, this.ms(event.offsetX)), this.lasts);
    this.events.cursor(at, true);
    this.events.select(this.hitAt(event.offsetX, event.offsetY)?.target ?? null);
  }

  hitAt(x, y) {
    for (let at = this.hits.length - 1; at >= 0; at -= 1) {
      const hit = this.hits[at];
      if (x >= hit.x - 3 && x <= hit.x + hit.width + 3 && y >= hit.y - 1 && y <= hit.y + hit.height + 1) return hit;
    }
    return null;
  }
}
