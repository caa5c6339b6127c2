// Asks @openai/agents-realtime whether it would understand a server's events.
//
// usage: node validate_events.mjs EVENTS.jsonl NODE_MODULES        ("-" reads standard input)
//
// An event its schemas refuse becomes "generic" there: only listeners for "*" hear it. Prints one JSON report, as
// validate_events.py does; exit code 1 when anything was refused.
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const [source, modules = 'node_modules'] = process.argv.slice(2);
const home = resolve(modules, '@openai/agents-realtime');
const { version } = JSON.parse(readFileSync(resolve(home, 'package.json'), 'utf8'));
const { parseRealtimeEvent, realtimeServerEventSchema } = await import(
  pathToFileURL(resolve(home, 'dist/openaiRealtimeEvents.mjs')).href
);

const text = readFileSync(source === '-' ? 0 : source, 'utf8');
const lines = text.split('\n').filter((line) => line.trim());
const rejections = [];
lines.forEach((line, index) => {
  const event = JSON.parse(line);
  if (!parseRealtimeEvent({ data: line }).isGeneric) return;
  const issues = realtimeServerEventSchema.safeParse(event).error?.issues ?? [];
  const why = issues.slice(0, 6).map((issue) => `${issue.path.join('.')}: ${issue.code}`).join('; ');
  rejections.push({ client: 'agents-realtime', line: index + 1, type: event.type, why });
});
console.log(JSON.stringify({ clients: { 'agents-realtime': version }, events: lines.length, rejections }));
process.exit(rejections.length ? 1 : 0);
