// The sound of the last seconds: the caller above the line, the assistant below it, now at the right.

import { colors, onColorsChanged } from "../../shell/colors.js";
import { html, useEffect, useRef } from "../../shell/view.js";

const SPAN_MS = 12_000;
const BAR = 3;
const GAP = 2;
const CALM_MS = 400;

function draw(canvas, call, palette) {
  const scale = devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  const middle = height / 2;
  const count = Math.floor(width / (BAR + GAP));
  const stepMs = SPAN_MS / count;
  // Bars stand on a grid of time, so that they move as one and do not flicker.
  const now = Math.floor(performance.now() / stepMs) * stepMs;
  for (let at = 0; at < count; at += 1) {
    const agoMs = at * stepMs;
    const x = width - (at + 1) * (BAR + GAP);
    bar(pen, x, middle - 3, -loudest(call?.current?.callerLevels, now, agoMs, stepMs) * (middle - 8), palette.caller);
    bar(pen, x, middle + 3, loudest(call?.current?.assistantLevels, now, agoMs, stepMs) * (middle - 8), palette.assistant);
  }
  pen.fillStyle = palette.line;
  pen.fillRect(0, middle - 0.5, width, 1);
}

function loudest(levels, now, agoMs, stepMs) {
  let peak = 0;
  for (let ms = agoMs; levels && ms < agoMs + stepMs; ms += 20) peak = Math.max(peak, levels.at(now, ms));
  return Math.sqrt(Math.min(1, peak));
}

function bar(pen, x, from, size, color) {
  if (Math.abs(size) < 1) return;
  pen.fillStyle = color;
  pen.beginPath();
  pen.roundRect(x, size < 0 ? from + size : from, BAR, Math.abs(size), BAR / 2);
  pen.fill();
}

export function Scope({ call }) {
  const canvas = useRef(null);
  useEffect(() => {
    let palette = colors("caller", "assistant", "line");
    const stopColors = onColorsChanged(() => {
      palette = colors("caller", "assistant", "line");
    });
    const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    let isOver = false;
    const step = () => {
      if (isOver || !canvas.current) return;
      draw(canvas.current, call, palette);
      if (isCalm) setTimeout(step, CALM_MS);
      else requestAnimationFrame(step);
    };
    step();
    return () => {
      isOver = true;
      stopColors();
    };
  }, []);
  return html`<div class="scope">
    <canvas
      ref=${canvas}
      role="img"
      aria-label="Loudness of the last twelve seconds: you above the line, the assistant below it"
    ></canvas>
    <span class="scope-name caller" aria-hidden="true">You</span>
    <span class="scope-name assistant" aria-hidden="true">Assistant</span>
  </div>`;
}
