// The timeline of one call: stage, transport, words, record, marks. The same in a gateway's page and in a report.

import { html, useEffect, useMemo, useRef, useState } from "../shell/view.js";
import { Icon } from "../shell/shell.js";
import { allMarks, clock, kept, lengthOf, place, saidAt, timeOfSeq, writeLink } from "./model.js";
import { Player } from "./player.js";
import { Compared, LaneNames } from "./compared.js";
import { Hint, Marks, RecordPanel, targetOf } from "./records.js";
import { Stage } from "./stage.js";
import { Words } from "./words.js";

const PLAY = html`<path d="M7 4.500v15l12-7.500z" fill="currentColor" />`;
const PAUSE = html`<path d="M7 5h3v14H7zM14 5h3v14h-3z" fill="currentColor" />`;
const REFRESH_MS = 1_000;

// `source` is where the call comes from, `doc` its first document; `link` what the address asked for.
export function Timeline({ source, doc: first, link = {}, actions = null, compare = null }) {
  const [doc, setDoc] = useState(first);
  const [generated, setGenerated] = useState(link.generated ?? false);
  const [cursor, setCursor] = useState(link.at ?? 0);
  const [view, setView] = useState(() => kept(link.view ?? [0, lengthOf(first)], lengthOf(first)));
  const [selected, setSelected] = useState(null);
  const [record, setRecord] = useState(null);
  const [follows, setFollows] = useState(source.isLive && first.state !== "closed" && !link.at && !link.seq);
  const [hover, setHover] = useState(null);
  const [said, announce] = useState("");
  const [, redraw] = useState(0);
  const stage = useRef(null);
  const canvas = useRef(null);
  const overview = useRef(null);
  const player = useMemo(
    () =>
      new Player(
        (lane, from, to) => source.audio(lane, from, to),
        () => redraw((count) => count + 1),
      ),
    [],
  );
  const lasts = lengthOf(doc, generated);
  const marks = useMemo(() => allMarks(doc, generated), [doc, generated]);

  const seek = (at, byHand = false) => {
    const where = Math.round(Math.min(Math.max(0, at), lasts));
    setCursor(where);
    if (stage.current) {
      stage.current.cursor = where;
      stage.current.dirty();
    }
    if (byHand && player.isPlaying) player.play(where, lasts, generated);
    if (byHand) setFollows(false);
  };
  const open = async (target) => {
    setSelected(target);
    if (stage.current) {
      stage.current.selected = target;
      stage.current.dirty();
    }
    const found = target && place(target.ref);
    if (found) await openRecord(found);
    else setRecord(null);
  };
  const openRecord = async (where) => {
    try {
      setRecord({ ...where, held: await source.record(where) });
    } catch (error) {
      setRecord({ ...where, trouble: error.message });
    }
  };
  const jump = async (seq) => {
    const ref = marks.find((mark) => place(mark.ref)?.seq === seq);
    let at = ref ? ref.at : timeOfSeq(doc, seq);
    try {
      const held = await source.record({ stream: "output", seq });
      at = held.at_ms - doc.start_ms;
      setRecord({ stream: "output", id: held.id, seq, held, name: `seq ${seq}` });
    } catch (error) {
      setRecord({ stream: "output", seq, trouble: error.message, name: `seq ${seq}` });
      announce(error.message);
      return;
    }
    const target = ref ? targetOf(ref) : null;
    setSelected(target);
    if (stage.current) stage.current.selected = target;
    seek(at, true);
    const span = Math.min(view[1] - view[0], 20_000);
    stage.current?.moveTo([at - span / 2, at + span / 2]);
    announce(`At seq ${seq}, ${clock(at)}.`);
  };
  const toggle = () => {
    if (player.isPlaying || player.waiting) player.stop();
    else player.play(cursor >= lasts - 20 ? 0 : cursor, lasts, generated);
    redraw((count) => count + 1);
  };
  const step = (by) => {
    const now = cursor + (by > 0 ? 1 : -1);
    const found = by > 0 ? marks.find((mark) => mark.at > now) : marks.findLast((mark) => mark.at < now);
    if (!found) return;
    seek(found.at, true);
    stage.current?.reveal(found.at);
    open(targetOf(found));
    announce(`${clock(found.at)}, ${found.laneName}: ${found.name}${found.text ? `, ${found.text}` : ""}`);
  };

  // The stage, once.
  useEffect(() => {
    const made = new Stage(canvas.current, overview.current, source, first, {
      view: (next) => setView(next),
      cursor: (at, byHand) => handlers.current.seek(at, byHand),
      select: (target) => handlers.current.open(target),
      hover: (at) => setHover(at),
    });
    made.generated = generated;
    made.take(first);
    made.show(view);
    made.cursor = cursor;
    stage.current = made;
    window.duplexTimeline = made;
    if (link.seq) handlers.current.jump(link.seq);
    return () => made.close();
  }, []);
  const handlers = useRef({});
  handlers.current = { seek, open, jump, toggle, step };

  useEffect(() => {
    stage.current?.setGenerated(generated);
    player.stop();
  }, [generated]);

  // While it plays, the cursor moves.
  useEffect(() => {
    let frame = 0;
    const tick = () => {
      if (player.isPlaying) {
        const at = player.at;
        setCursor(at);
        stage.current.cursor = at;
        const [from, to] = stage.current.view;
        if (at > to - (to - from) * 0.05) stage.current.moveTo([at - (to - from) * 0.1, at + (to - from) * 0.9]);
        stage.current.dirty();
      }
      frame = requestAnimationFrame(tick);
    };
    frame = requestAnimationFrame(tick);
    return () => {
      cancelAnimationFrame(frame);
      player.stop();
    };
  }, []);

  // A live call goes on.
  useEffect(() => {
    if (!source.isLive || doc.state === "closed") return undefined;
    let timer = 0;
    let stopped = false;
    const refresh = async () => {
      timer = 0;
      const began = performance.now();
      try {
        const newer = await source.document();
        if (newer && !stopped) setDoc(newer);
      } catch (error) {
        announce(error.message);
      }
      pause = Math.max(REFRESH_MS, (performance.now() - began) * 10);
    };
    let pause = 0;
    const soon = () => {
      if (!timer && !stopped) timer = setTimeout(refresh, pause);
    };
    const stop = source.follow(doc.position, soon, soon);
    return () => {
      stopped = true;
      clearTimeout(timer);
      stop();
    };
  }, [doc.state === "closed"]);
  useEffect(() => {
    if (!stage.current || doc === first) return;
    stage.current.take(doc);
    if (follows) {
      const span = Math.max(stage.current.view[1] - stage.current.view[0], 5_000);
      stage.current.moveTo([Math.max(0, lengthOf(doc, generated) - span), lengthOf(doc, generated)]);
    }
  }, [doc]);

  // The address says what is on the screen.
  useEffect(() => {
    if (source.embedded) return undefined;
    const timer = setTimeout(() => {
      const seq = record?.stream === "output" ? record.seq : undefined;
      history.replaceState(null, "", writeLink({ at: cursor, view, seq, other: compare?.session, generated }));
    }, 250);
    return () => clearTimeout(timer);
  }, [Math.round(cursor / 50), view, record, generated, compare?.session]);

  const key = (event) => {
    const span = view[1] - view[0];
    const keys = {
      " ": toggle,
      k: toggle,
      ArrowLeft: () => seek(cursor - (event.shiftKey ? 100 : Math.max(200, span / 40)), true),
      ArrowRight: () => seek(cursor + (event.shiftKey ? 100 : Math.max(200, span / 40)), true),
      Home: () => seek(0, true),
      End: () => seek(lasts, true),
      "+": () => stage.current.zoom(0.6),
      "=": () => stage.current.zoom(0.6),
      "-": () => stage.current.zoom(1.6),
      0: () => stage.current.moveTo([0, lasts * 1.02]),
      n: () => step(1),
      p: () => step(-1),
      PageDown: () => stage.current.pan(0.8),
      PageUp: () => stage.current.pan(-0.8),
      Escape: () => open(null),
    };
    const act = keys[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
    if (event.key.startsWith("Arrow") || event.key === "Home" || event.key === "End")
      stage.current.reveal(stage.current.cursor);
  };

  const now = saidAt(doc, cursor, generated);
  const spoken = [now.caller && `caller: ${now.caller}`, now.said && `assistant: ${now.said}`]
    .filter(Boolean)
    .join("; ");
  return html`
    <section class="card stage-card" aria-label="Timeline">
      <div class="transport">
        <button
          type="button"
          class="button primary icon"
          aria-label=${player.isPlaying ? "Pause" : "Play"}
          title="Play or pause (space)"
          disabled=${!source.hasSound}
          onClick=${toggle}
        >
          <${Icon}>${player.isPlaying || player.waiting ? PAUSE : PLAY}<//>
        </button>
        <output class="time number" data-testid="time">${clock(cursor)}</output>
        <span class="faint number small">/ ${clock(lasts, 0)}</span>
        <${Sides} player=${player} />
        <div class="segments" role="group" aria-label="Which sound of the assistant">
          ${[
            [false, "heard"],
            [true, "generated"],
          ].map(
            ([value, name]) =>
              html`<button
                type="button"
                class="button small"
                aria-pressed=${String(generated === value)}
                onClick=${() => setGenerated(value)}
              >
                as ${name}
              </button>`,
          )}
        </div>
        <span class="grow"></span>
        <${Jump} jump=${jump} last=${doc.last_seq} />
        <div class="segments">
          <button
            type="button"
            class="button small icon"
            aria-label="Previous mark"
            title="Previous mark (p)"
            onClick=${() => step(-1)}
          >
            <${Icon}><path d="M15 6l-6 6 6 6" /><//>
          </button>
          <button
            type="button"
            class="button small icon"
            aria-label="Next mark"
            title="Next mark (n)"
            onClick=${() => step(1)}
          >
            <${Icon}><path d="M9 6l6 6-6 6" /><//>
          </button>
          <button
            type="button"
            class="button small icon"
            aria-label="Zoom out"
            title="Zoom out (-)"
            onClick=${() => stage.current.zoom(1.6)}
          >
            <${Icon}><path d="M5 12h14" /><//>
          </button>
          <button
            type="button"
            class="button small icon"
            aria-label="Zoom in"
            title="Zoom in (+)"
            onClick=${() => stage.current.zoom(0.6)}
          >
            <${Icon}><path d="M5 12h14M12 5v14" /><//>
          </button>
          <button
            type="button"
            class="button small"
            title="The whole call (0)"
            onClick=${() => stage.current.moveTo([0, lasts * 1.02])}
          >
            Fit
          </button>
        </div>
        ${
          source.isLive && doc.state !== "closed"
            ? html`<button
                type="button"
                class="button small"
                aria-pressed=${String(follows)}
                onClick=${() => setFollows(!follows)}
              >
                <span class=${`dot ${follows ? "live" : ""}`}></span>Follow live
              </button>`
            : null
        }
      </div>
      ${player.trouble ? html`<p class="notice bad" role="alert">It cannot be played: ${player.trouble}</p>` : null}
      <canvas ref=${overview} class="overview" aria-hidden="true"></canvas>
      <div class="stage">
        <${LaneNames} doc=${doc} />
        <div
          class="stage-view"
          tabindex="0"
          role="slider"
          aria-label="Position in the call"
          aria-valuemin="0"
          aria-valuemax=${Math.round(lasts)}
          aria-valuenow=${Math.round(cursor)}
          aria-valuetext=${`${clock(cursor)}${spoken ? `, ${spoken}` : ""}`}
          onKeyDown=${key}
        >
          <canvas ref=${canvas} class="lanes"></canvas>
          ${hover?.hit?.target ? html`<${Hint} hover=${hover} start=${doc.start_ms} />` : null}
        </div>
      </div>
      <div class="captions" data-testid="captions">
        <p><b class="who caller">Caller</b> <span data-testid="caller-words">${now.caller || "–"}</span></p>
        <p>
          <b class="who assistant">Assistant</b>${" "}
          <span data-testid="assistant-words">${now.said || (now.rest ? "" : "–")}</span>${" "}
          <span class="faint">${now.rest}</span>
        </p>
      </div>
    </section>
    ${compare ? html`<${Compared} ...${{ compare, view, stage, doc }} setView=${(next) => stage.current.moveTo(next)} />` : null}
    <div class="below">
      <${Words}
        doc=${doc}
        generated=${generated}
        cursor=${cursor}
        seek=${(at, target) => {
          seek(at, true);
          stage.current.reveal(at);
          open(target);
        }}
      />
      <${RecordPanel}
        record=${record}
        selected=${selected}
        doc=${doc}
        source=${source}
        openRecord=${openRecord}
        close=${() => open(null)}
      />
    </div>
    <${Marks}
      marks=${marks}
      choose=${(mark) => {
        seek(mark.at, true);
        stage.current.reveal(mark.at);
        open(targetOf(mark));
      }}
    />
    <p class="sr-only" aria-live="polite">${said}</p>
    ${actions}
  `;
}

function Sides({ player }) {
  return html`<div class="segments" role="group" aria-label="Whom to hear">
    ${["caller", "assistant"].map(
      (side) =>
        html`<button
          type="button"
          class=${`button small side ${side}`}
          aria-pressed=${String(!player.muted[side])}
          title=${`Hear the ${side}`}
          onClick=${() => player.mute(side, !player.muted[side])}
        >
          ${side}
        </button>`,
    )}
  </div>`;
}

function Jump({ jump, last }) {
  const [text, setText] = useState("");
  const go = (event) => {
    event.preventDefault();
    if (/^\d+$/.test(text)) jump(Number(text));
  };
  return html`<form class="jump" onSubmit=${go}>
    <input
      class="input small number"
      inputmode="numeric"
      pattern="[0-9]*"
      aria-label=${`Jump to a seq, 1 to ${last}`}
      placeholder="seq"
      value=${text}
      onInput=${(event) => setText(event.target.value)}
    />
    <button type="submit" class="button small">Go</button>
  </form>`;
}
