// Every scenario that all clients share, against a real server.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { before, test } from 'node:test';
import { Client, LingerError } from 'linger-queue';
import { linger } from './harness.mjs';

const scenarios = new URL('../../scenarios/', import.meta.url);
let client;
before(async () => {
  client = new Client({ servers: (await linger()).url });
});

const calls = {
  add: (job) => client.add(job),
  add_many: ({ jobs }) => client.addMany(jobs),
  get: ({ topic, id }) => client.get(topic, id),
  update: ({ topic, id, changes, if_version }) => client.update(topic, id, changes, { if_version }),
  delete: ({ topic, id, ...options }) => client.delete(topic, id, options),
  history: async ({ topic, id }) => ({ history: await client.history(topic, id) }),
  run: ({ topic, id, ...options }) => client.run(topic, id, options),
  hold: ({ topic, id, ...options }) => client.hold(topic, id, options),
  unhold: ({ topic, id, ...options }) => client.unhold(topic, id, options),
  pop: async ({ topics, ...options }) => ({ jobs: await client.pop(topics, options) }),
  finish: ({ topic, id, lease, ...options }) => client.finish({ topic, id, lease }, options),
  fail: ({ topic, id, lease, ...options }) => client.fail({ topic, id, lease }, options),
  release: ({ topic, id, lease, ...options }) => client.release({ topic, id, lease }, options),
  touch: ({ topic, id, lease, ...options }) => client.touch({ topic, id, lease }, options),
  jobs: async ({ topic, ...filter }) => ({ jobs: await all(client.jobs(topic, filter)) }),
  topics: async (filter) => ({ topics: await all(client.topics(filter)) }),
  topic: ({ topic }) => client.topic(topic),
  configure: ({ topic, settings }) => client.configure(topic, settings),
  forget: ({ topic }) => client.forget(topic),
  pause: ({ topic, ...options }) => client.pause(topic, options),
  resume: ({ topic }) => client.resume(topic),
  empty: ({ topic }) => client.empty(topic),
  redrive: ({ topic, ...options }) => client.redrive(topic, options),
};

async function all(items) {
  const list = [];
  for await (const item of items) list.push(item);
  return list;
}

for (const file of readdirSync(scenarios).filter((name) => name.endsWith('.json'))) {
  const { name, steps } = JSON.parse(readFileSync(new URL(file, scenarios), 'utf8'));
  test(`scenario: ${name}`, { timeout: 30_000 }, async () => {
    const saved = {};
    for (const [index, step] of steps.entries()) await play(step, saved, `${file}, step ${index + 1}, ${step.call}`);
  });
}

async function play({ call, args, expect, error, save = {} }, saved, where) {
  const made = calls[call](substitute(args, saved));
  if (error) {
    await assert.rejects(made, (thrown) => {
      assert.ok(thrown instanceof LingerError, `${where}: ${thrown}`);
      for (const part of Object.keys(error))
        assert.equal(thrown[part], error[part], `${where}: ${part} of "${thrown.message}"`);
      return true;
    });
    return;
  }
  // As the API gives it: moments as text, bytes as base64.
  const answer = JSON.parse(JSON.stringify(await made));
  match(answer, substitute(expect, saved), where);
  for (const [name, path] of Object.entries(save))
    saved[name] = path.split('.').reduce((part, key) => part[key], answer);
}

function substitute(value, saved) {
  if (typeof value === 'string')
    return value.startsWith('$') && value.slice(1) in saved ? saved[value.slice(1)] : value;
  if (Array.isArray(value)) return value.map((item) => substitute(item, saved));
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, substitute(item, saved)]));
}

function match(actual, expected, where) {
  if (expected === '$any') return assert.notEqual(actual ?? undefined, undefined, `${where} is not there`);
  if (expected === '$absent') return assert.equal(actual, undefined, where);
  if (expected === null || typeof expected !== 'object') return assert.deepEqual(actual, expected, where);
  if ('$length' in expected) return assert.equal(actual.length, expected.$length, `${where}: length`);
  if (Array.isArray(expected)) assert.equal(actual?.length, expected.length, `${where}: length`);
  assert.ok(actual && typeof actual === 'object', `${where} is ${actual}`);
  for (const key of Object.keys(expected)) match(actual[key], expected[key], `${where}.${key}`);
}
