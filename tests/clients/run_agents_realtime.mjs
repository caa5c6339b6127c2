// `@openai/agents-realtime`: a RealtimeSession over its WebSocket transport, with a tool, as its documentation shows.
//
// usage: node run_agents_realtime.mjs ws://HOST:PORT/v1/realtime NODE_MODULES
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

import { RATE_HZ, expect, run, say, until } from './question.mjs';

const [url, modules = 'node_modules'] = process.argv.slice(2);
const home = resolve(modules, '@openai/agents-realtime');
const find = createRequire(resolve(home, 'package.json'));
const load = (path) => import(pathToFileURL(path).href);
const { RealtimeAgent, RealtimeSession, OpenAIRealtimeWebSocket, tool } = await load(resolve(home, 'dist/index.mjs'));
const { parseRealtimeEvent } = await load(resolve(home, 'dist/openaiRealtimeEvents.mjs'));
const { z } = await load(find.resolve('zod'));
const { version } = JSON.parse(readFileSync(resolve(home, 'package.json'), 'utf8'));

/** Everything the transport was sent (`raw`) and the session made of it (`told`). */
const raw = [];
const told = [];

function listen(session, report) {
  session.on('transport_event', (event) => {
    const isOwn = event.type.startsWith('connection');
    if (!isOwn && parseRealtimeEvent({ data: JSON.stringify(event) }).isGeneric) {
      report.validation_errors.push(`generic: ${JSON.stringify(event).slice(0, 300)}`);
    }
    raw.push(event);
  });
  session.on('error', (error) => report.validation_errors.push(`error: ${JSON.stringify(error).slice(0, 400)}`));
  for (const name of ['agent_end', 'audio', 'audio_interrupted']) {
    session.on(name, (...details) => told.push({ name, details }));
  }
  session.on('agent_tool_end', (context, agent, called, result) => told.push({ name: 'agent_tool_end', result }));
}

const rawEvent = (type, since, fits = () => true) =>
  until(() => raw.slice(since).find((event) => event.type === type && fits(event)), type);
const ask = (session) => say((pcm) => session.sendAudio(pcm));

async function turn(session) {
  const since = raw.length;
  const begun = told.length;
  await ask(session);
  const done = await rawEvent('response.done', since);
  expect(done.response.status === 'completed', done.response.status);
  await until(() => told.slice(begun).some((event) => event.name === 'agent_end'), 'agent_end');
  const heard = told.slice(begun).filter((event) => event.name === 'audio');
  const bytes = heard.reduce((sum, event) => sum + event.details[0].data.byteLength, 0);
  const spoken = await rawEvent('response.output_audio_transcript.done', since);
  expect(spoken.transcript.includes('42'), spoken.transcript);
  expect(bytes > RATE_HZ, `${bytes} bytes of answer`);
  return `${(bytes / 2 / RATE_HZ).toFixed(1)} s: ${spoken.transcript}`;
}

async function interruption(session) {
  const since = raw.length;
  const begun = told.length;
  await ask(session);
  await until(() => told.slice(begun).some((event) => event.name === 'audio'), 'audio');
  await ask(session);
  const cut = await rawEvent('response.done', since);
  expect(cut.response.status === 'cancelled', cut.response.status);
  expect(told.slice(begun).some((event) => event.name === 'audio_interrupted'), 'no audio_interrupted');
  const done = await rawEvent('response.done', raw.indexOf(cut) + 1);
  expect(done.response.status === 'completed', done.response.status);
  return 'audio_interrupted, then answered anew';
}

async function toolCall(session) {
  const since = raw.length;
  session.sendMessage('Weather in Paris?');
  const ended = await until(() => told.find((event) => event.name === 'agent_tool_end'), 'agent_tool_end');
  expect(ended.result.includes('Paris'), ended.result);
  const isAnswer = (event) => event.transcript.includes('24');
  const spoken = await rawEvent('response.output_audio_transcript.done', since, isAnswer);
  await rawEvent('response.done', raw.indexOf(spoken));
  return spoken.transcript;
}

async function truncation() {
  const truncated = await rawEvent('conversation.item.truncated', 0);
  return `cut at ${truncated.audio_end_ms} ms by the session itself`;
}

await run('@openai/agents-realtime', version, async (report) => {
  const weather = tool({
    name: 'get_weather',
    description: 'Current weather of a city',
    parameters: z.object({ city: z.string() }),
    execute: async ({ city }) => `24 degrees and clear in ${city}`,
  });
  const agent = new RealtimeAgent({ name: 'host', instructions: 'Be brief.', tools: [weather] });
  const transport = new OpenAIRealtimeWebSocket({ url: `${url}?model=cascade`, useInsecureApiKey: true });
  const session = new RealtimeSession(agent, { transport, model: 'cascade' });
  listen(session, report);
  await session.connect({ apiKey: 'none' });
  await rawEvent('session.updated', 0);
  const works = [() => turn(session), () => turn(session), () => interruption(session), () => toolCall(session), truncation];
  return { works, close: () => session.close() };
});
