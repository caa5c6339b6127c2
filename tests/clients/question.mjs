// What the JavaScript runs say, and how they wait and report; the twin of sound.py and report.py.
import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

export const STEPS = ['first audio turn', 'second audio turn', 'interruption', 'tool call', 'truncation'];
export const RATE_HZ = 24000;
const STEP_MS = 45000;
const CHUNK_MS = 40;

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** The recorded question at 24 kHz, with a little silence before and enough of it after. */
function questionPcm() {
  const here = dirname(fileURLToPath(import.meta.url));
  const file = readFileSync(resolve(here, '../../examples/audio/question.wav'));
  const rate = file.readUInt32LE(24);
  const at = file.indexOf('data') + 8;
  const size = (file.length - at) & ~1;
  const samples = new Int16Array(file.buffer.slice(file.byteOffset + at, file.byteOffset + at + size));
  const count = Math.floor((samples.length * RATE_HZ) / rate);
  const before = RATE_HZ / 10;
  const said = new Int16Array(before + count + RATE_HZ * 0.9);
  for (let number = 0; number < count; number += 1) {
    const place = (number * rate) / RATE_HZ;
    const first = Math.floor(place);
    const next = samples[Math.min(first + 1, samples.length - 1)];
    said[before + number] = samples[first] + (next - samples[first]) * (place - first);
  }
  return said;
}

/** Says the question as a microphone would, through `send`, which takes an ArrayBuffer of PCM16. */
export async function say(send) {
  const said = questionPcm();
  const size = (RATE_HZ * CHUNK_MS) / 1000;
  const began = Date.now();
  for (let number = 0; number * size < said.length; number += 1) {
    send(said.slice(number * size, (number + 1) * size).buffer);
    await sleep(Math.max(0, began + (number + 1) * CHUNK_MS - Date.now()));
  }
}

/** What `probe` returns, as soon as it is true. */
export async function until(probe, what) {
  const limit = Date.now() + STEP_MS;
  while (Date.now() < limit) {
    const found = probe();
    if (found) return found;
    await sleep(10);
  }
  throw new Error(`waited in vain for ${what}`);
}

export function expect(holds, what) {
  if (!holds) throw new Error(what);
}

/** Runs the five steps and prints the report; ends the process with 0 when all was well. */
export async function run(client, version, open) {
  const report = { client, version, steps: [], validation_errors: [], ok: false };
  try {
    const { works, close } = await open(report);
    try {
      for (const [number, work] of works.entries()) {
        report.steps.push({ name: STEPS[number], ok: false, detail: '' });
        report.steps[number].detail = await work();
        report.steps[number].ok = true;
      }
    } finally {
      close();
    }
  } catch (error) {
    console.error(error);
    if (report.steps.length) report.steps.at(-1).detail = String(error);
    else report.steps.push({ name: '(before the first step)', ok: false, detail: String(error) });
  }
  const passed = report.steps.length === STEPS.length && report.steps.every((step) => step.ok);
  report.ok = passed && report.validation_errors.length === 0;
  console.log(JSON.stringify(report));
  process.exit(report.ok ? 0 : 1);
}
