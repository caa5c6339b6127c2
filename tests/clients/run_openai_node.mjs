// The `openai` package for Node: its realtime connection, which speaks TLS and nothing else.
//
// usage: node run_openai_node.mjs https://HOST:PORT/v1 NODE_MODULES     (NODE_EXTRA_CA_CERTS: a certificate to trust)
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

import { RATE_HZ, expect, run, say, until } from './question.mjs';

const [baseURL, modules = 'node_modules'] = process.argv.slice(2);
const home = resolve(modules, 'openai');
const load = (path) => import(pathToFileURL(path).href);
const { OpenAI } = await load(resolve(home, 'index.mjs'));
const { OpenAIRealtimeWS } = await load(resolve(home, 'realtime/ws.mjs'));
const { version } = JSON.parse(readFileSync(resolve(home, 'package.json'), 'utf8'));
const weather = {
  type: 'function',
  name: 'get_weather',
  description: 'Current weather of a city',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
};
const heard = [];

const event = (type, since, fits = () => true) =>
  until(() => heard.slice(since).find((one) => one.type === type && fits(one)), type);
const ask = (connection) =>
  say((pcm) => connection.send({ type: 'input_audio_buffer.append', audio: Buffer.from(pcm).toString('base64') }));

async function turn(connection) {
  const since = heard.length;
  await ask(connection);
  const done = await event('response.done', since);
  expect(done.response.status === 'completed', done.response.status);
  const deltas = heard.slice(since).filter((one) => one.type === 'response.output_audio.delta');
  const bytes = deltas.reduce((sum, one) => sum + Buffer.from(one.delta, 'base64').length, 0);
  const spoken = await event('response.output_audio_transcript.done', since);
  expect(spoken.transcript.includes('42'), spoken.transcript);
  expect(bytes > RATE_HZ, `${bytes} bytes of answer`);
  return `${(bytes / 2 / RATE_HZ).toFixed(1)} s: ${spoken.transcript}`;
}

async function interruption(connection) {
  const since = heard.length;
  await ask(connection);
  await event('response.output_audio.delta', since);
  await ask(connection);
  const cut = await event('response.done', since);
  expect(cut.response.status_details?.reason === 'turn_detected', JSON.stringify(cut.response));
  const done = await event('response.done', heard.indexOf(cut) + 1);
  expect(done.response.status === 'completed', done.response.status);
  return 'turn_detected, then answered anew';
}

async function toolCall(connection) {
  const since = heard.length;
  const content = [{ type: 'input_text', text: 'Weather in Paris?' }];
  connection.send({ type: 'conversation.item.create', item: { type: 'message', role: 'user', content } });
  connection.send({ type: 'response.create' });
  const call = await event('response.function_call_arguments.done', since);
  expect(JSON.parse(call.arguments).city === 'Paris', call.arguments);
  await event('response.done', heard.indexOf(call));
  const output = JSON.stringify({ temperature_c: 24 });
  connection.send({ type: 'conversation.item.create', item: { type: 'function_call_output', call_id: call.call_id, output } });
  connection.send({ type: 'response.create' });
  const spoken = await event('response.output_audio_transcript.done', since, (one) => one.transcript.includes('24'));
  await event('response.done', heard.indexOf(spoken));
  return spoken.transcript;
}

async function truncation(connection) {
  const since = heard.length;
  const [item] = heard.filter((one) => one.type === 'response.done').at(-1).response.output;
  connection.send({ type: 'conversation.item.truncate', item_id: item.id, content_index: 0, audio_end_ms: 300 });
  const truncated = await event('conversation.item.truncated', since);
  expect(truncated.item_id === item.id && truncated.audio_end_ms === 300, JSON.stringify(truncated));
  return 'cut at 300 ms';
}

await run('openai (Node)', version, async (report) => {
  const connection = new OpenAIRealtimeWS({ model: 'cascade' }, new OpenAI({ apiKey: 'none', baseURL }));
  connection.on('event', (one) => heard.push(one));
  connection.on('error', (error) => {
    // A model may tell a tool's output by itself; asking for it then is no mistake.
    if (error.error?.code === 'conversation_already_has_active_response') return;
    report.validation_errors.push(`error: ${error.message}`);
  });
  await event('session.created', 0);
  connection.send({ type: 'session.update', session: { type: 'realtime', tools: [weather] } });
  await event('session.updated', 0);
  const works = [turn, turn, interruption, toolCall, truncation].map((work) => () => work(connection));
  return { works, close: () => connection.close() };
});
