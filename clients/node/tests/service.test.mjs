// Service mode, with a real server.
import assert from 'node:assert/strict';
import http from 'node:http';
import { before, test } from 'node:test';
import express from 'express';
import Fastify from 'fastify';
import { Client, Service } from 'linger-queue';
import { freePort, gate, isEmpty, linger, listen, proxy, unavailable, until } from './harness.mjs';

let server;
let client;
before(async () => {
  server = await linger();
  client = new Client({ servers: server.url });
});

/** A service, stopped with the test; errors that it tells are kept. */
function service(t, app, handle, { client: by = client, ...options } = {}) {
  const errors = [];
  const made = new Service(by, {
    app,
    handlers: { [`${app}.jobs`]: handle },
    onError: (error) => errors.push(error),
    ...options,
  });
  t.after(() => made.stop({ grace: 0 }));
  return Object.assign(made, { errors });
}

const push = (app, id, more = {}) =>
  client.add({ topic: `${app}.jobs`, id, body: { id }, target: `worker:${app}`, ...more });
const worker = (id) => client.request('GET', `/v1/workers/${id}`);

test('a service that listens itself is registered and called for its topic', async (t) => {
  const { secret } = await client.request('POST', '/v1/secrets', { body: { topic: 'alone.jobs' } });
  const bodies = [];
  const alone = await service(t, 'alone', (job) => void bodies.push(job.body), { listen: {}, secrets: secret }).start();
  const known = await worker(alone.id);
  assert.deepEqual([known.app, known.topics, known.url, known.state], ['alone', ['alone.jobs'], alone.url, 'live']);
  await push('alone', '1');
  await until('the job is done', () => bodies.length === 1 && isEmpty(client, 'alone.jobs'));
  assert.deepEqual(bodies, [{ id: '1' }]);
  const stranger = await fetch(alone.url, {
    method: 'POST',
    body: '{}',
    headers: { 'linger-topic': 'alone.jobs', 'linger-job': '1' },
  });
  assert.equal(stranger.status, 401);
});

test('a service without secrets takes what is not signed', async (t) => {
  let calls = 0;
  await service(t, 'unsigned', () => void calls++, { listen: {} }).start();
  await push('unsigned', '1');
  await until('the job is done', () => calls === 1);
  assert.throws(() => service(t, 'unsigned', () => {}, { listen: {}, secrets: undefined }), TypeError);
});

const mounts = {
  Express: async (made, port) => {
    const app = express();
    app.post('/jobs', made.express());
    await listen(http.createServer(app), port);
  },
  Fastify: async (made, port) => {
    const fastify = Fastify();
    await fastify.register(made.fastify(), { path: '/jobs' });
    await fastify.ready();
    await listen(fastify.server, port);
  },
};
for (const [name, mount] of Object.entries(mounts)) {
  test(`a service is mounted in ${name}`, async (t) => {
    const app = `mounted-${name}`;
    const port = await freePort();
    let calls = 0;
    const made = service(t, app, () => void calls++, { url: `http://127.0.0.1:${port}/jobs` });
    await mount(made, port);
    await made.start();
    await push(app, '1');
    await until('the job is done', () => calls === 1 && isEmpty(client, `${app}.jobs`));
  });
}

test('heartbeats keep it known for longer than its lease', async (t) => {
  const { url, seen } = await proxy(server.url);
  const made = await service(t, 'beating', () => {}, {
    client: new Client({ servers: url }),
    listen: {},
    lease: 3000,
  }).start();
  const { registered, lease } = await worker(made.id);
  assert.equal(lease, '3s');
  await until(
    'its first lease is over',
    async () => Date.parse((await worker(made.id)).expires) > Date.parse(registered) + 5500,
  );
  assert.ok(seen.filter(({ path }) => path.endsWith('/heartbeat')).length >= 3);
  assert.equal((await worker(made.id)).registered, registered);
  assert.deepEqual(made.errors, []);
});

test('a service that was forgotten registers again, and is called', async (t) => {
  let calls = 0;
  const made = await service(t, 'forgotten', () => void calls++, { listen: {}, lease: '3s' }).start();
  const { id } = made;
  await client.request('DELETE', `/v1/workers/${id}`);
  await push('forgotten', '1');
  await until('it is called', () => calls === 1);
  assert.equal((await worker(made.id)).url, made.url);
});

test('a service asks again while the server is away', async (t) => {
  let away = true;
  const { url, seen } = await proxy(server.url, () => (away ? unavailable : undefined));
  const made = service(t, 'patient', () => {}, { client: new Client({ servers: url }), listen: {} });
  const started = made.start();
  await until('it has asked', () => seen.length >= 4);
  away = false;
  await started;
  assert.equal((await worker(made.id)).state, 'live');
});

test('a service that the server refuses does not start', async (t) => {
  const refused = service(t, 'with blanks', () => {}, { listen: {} });
  await assert.rejects(refused.start(), { code: 'invalid', field: 'app' });
  await assert.rejects(fetch(refused.url), TypeError, 'it does not listen any more');
});

test('stop drains, lets calls end, and deregisters', async (t) => {
  const started = gate();
  const { open, opened } = gate();
  const made = service(
    t,
    'stopping',
    async () => {
      started.open();
      await opened;
    },
    { listen: {} },
  );
  await made.start();
  await push('stopping', '1');
  await started.opened;
  let over = false;
  const stopped = made.stop().then(() => (over = true));
  await until('it drains', async () => (await worker(made.id)).state === 'draining');
  await push('stopping', '2');
  assert.equal(over, false);
  open();
  await stopped;
  await assert.rejects(worker(made.id), { code: 'not_found' });
  await until('the first is done', () =>
    client.get('stopping.jobs', '1').then(
      () => false,
      ({ code }) => code === 'not_found',
    ),
  );
  const second = await client.get('stopping.jobs', '2');
  assert.deepEqual([second.state, second.attempt], ['ready', 0], 'it waits for the next instance');
  await assert.rejects(fetch(made.url), TypeError);
});

test('stop takes back a registration that is under way', async (t) => {
  let made;
  let stopped;
  // It is told to stop when the server has registered it, and it does not know yet.
  const { url, seen } = await proxy(server.url, undefined, {
    beforeEnd: ({ method }) => method === 'POST' && (stopped ??= made.stop()),
  });
  made = service(t, 'hasty', () => {}, { client: new Client({ servers: url }), listen: {} });
  await made.start();
  await stopped;
  assert.ok(seen.some(({ method, path }) => method === 'DELETE' && path.endsWith(made.id)));
  await assert.rejects(worker(made.id), { code: 'not_found' });
  await assert.rejects(fetch(made.url), TypeError);
  assert.deepEqual(made.errors, []);
});

test('stop of a service that nobody started asks nothing', async (t) => {
  const { url, seen } = await proxy(server.url);
  await service(t, 'idle', () => {}, { client: new Client({ servers: url }), listen: {} }).stop();
  assert.deepEqual(seen, []);
});

test('stop does not wait for longer than the grace', async (t) => {
  const started = gate();
  const made = service(
    t,
    'hanging',
    () => {
      started.open();
      return new Promise(() => {});
    },
    { listen: {} },
  );
  await made.start();
  await push('hanging', '1');
  await started.opened;
  await made.stop({ grace: 50 });
  await assert.rejects(worker(made.id), { code: 'not_found' });
});
