// Both languages, and the JSON that is not to lose anything: without a browser.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const DASHBOARD = join(dirname(fileURLToPath(import.meta.url)), '../../dashboard');
const load = (name) => import(join(DASHBOARD, name));
const { default: en } = await load('messages/en.js');
const { default: zh } = await load('messages/zh.js');

const sources = readdirSync(DASHBOARD, { recursive: true })
  .filter((name) => name.endsWith('.js') && !name.startsWith('messages'))
  .map((name) => [name, readFileSync(join(DASHBOARD, name), 'utf8')]);

const forms = (message) => (typeof message === 'string' ? [message] : Object.values(message));
const places = (message) =>
  [...new Set(forms(message).flatMap((form) => form.match(/\{\w+\}/g) ?? []))].sort();

test('both languages have the same messages, with the same places in them', () => {
  assert.deepEqual(Object.keys(zh).sort(), Object.keys(en).sort());
  for (const key in en) assert.deepEqual(places(zh[key]), places(en[key]), key);
});

test('every message has the form for any number', () => {
  for (const messages of [en, zh]) {
    for (const [key, message] of Object.entries(messages))
      assert.ok(typeof message === 'string' || message.other, key);
  }
});

test('every message that is asked for by name is there, and every one there is asked for', () => {
  const all = sources.map(([, source]) => source).join('\n');
  const asked = new Set([...all.matchAll(/'([a-z_]+\.[a-z_]+)'/g)].map(([, key]) => key));
  const families = [...all.matchAll(/`([a-z_]+\.(?:[a-z_]+_)?)\$\{/g)].map(([, start]) => start);
  const made = new Set(['confirm.', 'envelope.', ...families]);
  const heads = new Set(Object.keys(en).map((key) => key.split('.')[0]));
  for (const key of asked) {
    const isFile = /\.(js|css|svg)$/.test(key) || key.startsWith('linger.');
    if (!isFile && heads.has(key.split('.')[0])) assert.ok(key in en, `${key} is asked for`);
  }
  for (const key of Object.keys(en)) {
    const isAsked =
      asked.has(key) || [...made].some((start) => key.startsWith(start)) || all.includes(`'${key}'`);
    assert.ok(isAsked, `${key} is asked for by nobody`);
  }
});

test('nothing in the sources can make markup of text', () => {
  for (const [name, source] of sources) {
    for (const word of [
      'innerHTML',
      'outerHTML',
      'insertAdjacent',
      'document.write',
      'DOMParser',
      'eval(',
      'new Function',
    ]) {
      assert.ok(!source.includes(word), `${name} has ${word}`);
    }
  }
});

test('a body keeps its numbers as they were written', async () => {
  const { compact, parse, pretty } = await load('json.js');
  const body =
    '{"id":12345678901234567890,"x":1.10,"e":-2E+05,"list":[0,true,null,"\\u00e9\\""],"none":{},"nothing":[]}';
  const { body: read } = parse(`{"id":"1", "n":{"body":2}, "body" : ${body} , "z":"}"}`);
  assert.equal(read.text, body);
  assert.equal(compact(read.value), body.replace('\\u00e9', 'é'));
  assert.equal(JSON.stringify(JSON.parse(pretty(read.value))), JSON.stringify(JSON.parse(body)));
  assert.ok(pretty(read.value).includes('"x": 1.10'));
});

test('a body of a mebibyte can be read', async () => {
  const { parse } = await load('json.js');
  const long = 'ab\\n"'.replace('"', '\\"').repeat(200_000);
  assert.equal(parse(`{"body":{"a":"${long}"}}`).body.value.get('a').length, 4 * 200_000);
});

test('a quantile is the bound of the class it falls in', async () => {
  const { quantile } = await load('live.js');
  assert.deepEqual(quantile([1, 10, 100], [5, 4, 1, 0], 10, 0.5), { ms: 1 });
  assert.deepEqual(quantile([1, 10, 100], [5, 4, 1, 0], 10, 0.99), { ms: 100 });
  assert.deepEqual(quantile([1, 10, 100], [0, 0, 0, 3], 3, 0.5), { ms: 100, over: true });
});

test('what left a topic is what came less what it has grown by', async () => {
  const { ratesSince } = await load('live.js');
  const counts = { delayed: 6, ready: 1, reserved: 0, retry: 0, held: 0, dead: 1, finished: 9 };
  const base = { at: 0, seen: new Map([['t', [100, 4]]]) };
  assert.deepEqual(ratesSince(base, 2_000, { topic: 't', added: 110, counts }), { inRate: 5, outRate: 3 });
});
