// Webhooks: signatures, and the ready handlers, called by a real server.
import assert from 'node:assert/strict';
import { generateKeyPairSync, sign as signWith } from 'node:crypto';
import http from 'node:http';
import { before, test } from 'node:test';
import express from 'express';
import Fastify from 'fastify';
import { Webhook as Standard } from 'standardwebhooks';
import { Again, Client, LingerError, RetryIn, Webhook, verify } from 'linger-queue';
import { gate, linger, listen, until } from './harness.mjs';

const SECRET = 'whsec_I7JvAspS1gDY2qCfZgeeH4diFf7eAO4ZeUGTq+UNWos=';
const OTHER = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

let client;
before(async () => {
  client = new Client({ servers: (await linger()).url });
});

/** A delivery as the server makes it, signed by an implementation that is not ours. */
function delivery({ secrets = [SECRET], body = '{"order":1}', at = new Date(), headers = {} } = {}) {
  const signatures = secrets.map((secret) => new Standard(secret).sign('lg_1_0', at, body));
  return {
    'webhook-id': 'lg_1_0',
    'webhook-timestamp': String(Math.floor(at / 1000)),
    'webhook-signature': signatures.join(' '),
    'linger-topic': 'order%2Fclose%20%E4%B8%96',
    'linger-job': '1001',
    'linger-attempt': '2',
    'linger-due': '2026-09-21T14:13:20.000Z',
    'linger-lease': '8c1f000000000000',
    'content-type': 'application/json',
    ...headers,
  };
}

const refuses = (call, message) =>
  assert.throws(call, (error) => LingerError.is(error, 'unauthorized') && message.test(error.message));

test('a right signature gives the job', () => {
  const job = verify(SECRET, delivery(), '{"order":1}');
  assert.deepEqual(
    { ...job },
    {
      topic: 'order/close 世',
      id: '1001',
      attempt: 2,
      due: new Date('2026-09-21T14:13:20.000Z'),
      lease: '8c1f000000000000',
      webhookId: 'lg_1_0',
      bytes: Buffer.from('{"order":1}'),
      body: { order: 1 },
    },
  );
  assert.equal(job.text, '{"order":1}');
});

test('headers may be those of fetch, or written in capitals; bodies may be bytes', () => {
  const capital = Object.fromEntries(Object.entries(delivery()).map(([name, value]) => [name.toUpperCase(), [value]]));
  for (const headers of [new Headers(delivery()), capital]) {
    assert.equal(verify([SECRET], headers, new Uint8Array(Buffer.from('{"order":1}'))).id, '1001');
  }
});

test('a wrong secret, a tampered body or a tampered head is refused', () => {
  refuses(() => verify(OTHER, delivery(), '{"order":1}'), /no signature fits/);
  refuses(() => verify(SECRET, delivery(), '{"order":2}'), /no signature fits/);
  refuses(() => verify(SECRET, delivery({ headers: { 'webhook-id': 'lg_2_0' } }), '{"order":1}'), /no signature fits/);
  const later = String(Math.floor(Date.now() / 1000) + 1);
  refuses(
    () => verify(SECRET, delivery({ headers: { 'webhook-timestamp': later } }), '{"order":1}'),
    /no signature fits/,
  );
  for (const nonsense of ['', 'v1', 'v1,', 'v2,abcd', 'v1,AAAA', 'v1a,AAAA']) {
    refuses(
      () => verify(SECRET, delivery({ headers: { 'webhook-signature': nonsense } }), '{"order":1}'),
      /no signature fits|missing/,
    );
  }
});

test('an old delivery, or one from the future, is refused', () => {
  for (const seconds of [-310, 310]) {
    refuses(() => verify(SECRET, delivery({ at: new Date(Date.now() + seconds * 1000) }), '{"order":1}'), /5 minutes/);
  }
  const old = new Date(Date.now() - 290_000);
  assert.equal(verify(SECRET, delivery({ at: old }), '{"order":1}').id, '1001');
  refuses(
    () => verify(SECRET, delivery({ at: old }), '{"order":1}', { now: new Date(Date.now() + 60_000) }),
    /5 minutes/,
  );
  for (const timestamp of ['soon', '', '-1', '1e9', 'NaN']) {
    refuses(
      () => verify(SECRET, delivery({ headers: { 'webhook-timestamp': timestamp } }), '{"order":1}'),
      /5 minutes|missing/,
    );
  }
});

test('while secrets are rotated any one that fits will do', () => {
  assert.equal(verify([OTHER, SECRET], delivery(), '{"order":1}').id, '1001');
  assert.equal(verify(SECRET, delivery({ secrets: [OTHER, SECRET] }), '{"order":1}').id, '1001');
  refuses(() => verify([OTHER], delivery({ secrets: [SECRET] }), '{"order":1}'), /no signature fits/);
});

test('a signature by ed25519 is checked with the public key', () => {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const key = `whpk_${Buffer.from(publicKey.export({ format: 'jwk' }).x, 'base64url').toString('base64')}`;
  const timestamp = String(Math.floor(Date.now() / 1000));
  const signature = signWith(null, Buffer.from(`lg_1_0.${timestamp}.{}`), privateKey).toString('base64');
  const headers = delivery({
    headers: { 'webhook-timestamp': timestamp, 'webhook-signature': `v1,AAAA v1a,${signature}` },
  });
  assert.equal(verify([SECRET, key], headers, '{}').id, '1001');
  refuses(() => verify(key, headers, '{ }'), /no signature fits/);
  for (const kind of ['v1', 'v2a']) {
    refuses(() => verify(key, { ...headers, 'webhook-signature': `${kind},${signature}` }, '{}'), /no signature fits/);
  }
});

test('missing headers are refused', () => {
  for (const name of ['webhook-id', 'webhook-timestamp', 'webhook-signature']) {
    refuses(() => verify(SECRET, delivery({ headers: { [name]: undefined } }), '{"order":1}'), new RegExp(name));
  }
  for (const bad of [undefined, '%E4%']) {
    assert.throws(() => verify(SECRET, delivery({ headers: { 'linger-topic': bad } }), '{"order":1}'), {
      code: 'invalid',
      field: 'linger-topic',
    });
  }
});

test('a secret that is missing is a mistake, and switches nothing off', () => {
  for (const secrets of [undefined, '', [], [undefined]]) {
    assert.throws(() => verify(secrets, delivery(), ''), TypeError);
    assert.throws(() => new Webhook({ secrets, handlers: { a: () => {} } }), TypeError);
  }
  assert.throws(() => verify('I7JvAspS', delivery(), ''), TypeError);
});

test('a secret that is no key is refused when it is given', () => {
  for (const secret of ['whsec_', 'whsec_!!', 'whsec_AAA', 'whsec_AA==AA==', `${SECRET}\n`, 'whpk_', 'whpk_!!', 'whpk_AAAA']) {
    assert.throws(() => verify([SECRET, secret], delivery(), '{"order":1}'), TypeError, secret);
    assert.throws(() => new Webhook({ secrets: secret, handlers: { a: () => {} } }), TypeError, secret);
  }
});

test('what a handler does is what is answered', async () => {
  const outcomes = {
    done: [() => 'anything', 204, undefined],
    again: [() => Promise.reject(new Again()), 200, { outcome: 'again' }],
    later: [() => Promise.reject(new Again(30_000)), 200, { outcome: 'again', retry_in: '30000ms' }],
    retry: [
      () => Promise.reject(new RetryIn('30s', 'busy')),
      200,
      { outcome: 'failed', error: 'busy', retry_in: '30s' },
    ],
    broken: [() => Promise.reject(new Error('no such order')), 200, { outcome: 'failed', error: 'no such order' }],
    long: [() => Promise.reject(new Error('x'.repeat(100_000))), 200, { outcome: 'failed', error: 'x'.repeat(4096) }],
  };
  const handlers = Object.fromEntries(Object.entries(outcomes).map(([topic, [handler]]) => [topic, handler]));
  const webhook = new Webhook({ secrets: SECRET, handlers, onError: () => {} });
  const answer = async (headers) => JSON.parse(JSON.stringify(await webhook.answer(headers, '{"order":1}')));
  for (const [topic, [, status, body]] of Object.entries(outcomes)) {
    assert.deepEqual(
      await answer(delivery({ headers: { 'linger-topic': topic } })),
      body ? { status, body } : { status },
      topic,
    );
  }
  const { status, body } = await answer(delivery({ headers: { 'linger-topic': 'nobody' } }));
  assert.deepEqual([status, body.error.code], [404, 'not_found']);
  assert.equal((await answer(delivery({ headers: { 'linger-topic': 'constructor' } }))).status, 404);
  assert.equal((await answer(delivery({ secrets: [OTHER] }))).status, 401);
  assert.equal((await answer(delivery({ at: new Date(0) }))).status, 401);
});

const frameworks = {
  'node:http': async (webhook) => listen(http.createServer(webhook.express())),
  Express: async (webhook) => listen(http.createServer(express().post('/hooks', webhook.express()))),
  'Express behind express.raw()': async (webhook) =>
    listen(http.createServer(express().post('/hooks', express.raw({ type: '*/*' }), webhook.express()))),
  Fastify: async (webhook) => {
    const fastify = Fastify({ forceCloseConnections: true });
    fastify.post('/other', async (request) => request.body);
    await fastify.register(webhook.fastify(), { path: '/hooks' });
    await fastify.ready();
    const url = await listen(fastify.server);
    const other = await fetch(`${url}/other`, {
      method: 'POST',
      body: '{"still":"parsed"}',
      headers: { 'content-type': 'application/json' },
    });
    assert.deepEqual(await other.json(), { still: 'parsed' });
    return url;
  },
};

for (const [name, serve] of Object.entries(frameworks)) {
  test(`a real server's pushes arrive: ${name}`, async () => {
    const topic = `hook ${name}`;
    const { secret } = await client.request('POST', '/v1/secrets', { body: { topic } });
    const { public_key: key } = await client.request('POST', '/v1/secrets', { body: { topic, kind: 'ed25519' } });
    const arrived = new Map();
    const handle = (job) => {
      arrived.set(`${job.id} ${job.attempt}`, job);
      if (job.id === 'again' && job.attempt === 1) throw new Again('1ms');
      if (job.id === 'bad') throw new Error('no such order');
    };
    // One knows only the older secret, one only the newer public key.
    const urls = await Promise.all(
      [secret, key].map((secrets) => serve(new Webhook({ secrets, handlers: { [topic]: handle }, onError: () => {} }))),
    );
    const retry = { attempts: 2, backoff: { base: '1h' } };
    const add = (id, body, url = urls[0]) => client.add({ topic, id, body, target: `${url}/hooks`, retry });
    await add('json', { order: 1001, text: '世界' });
    await add('text', 'hello');
    await add('bytes', Buffer.from([0, 255]));
    await add('none');
    await add('key', [1], urls[1]);
    await add('again', 1);
    await add('bad', 1);
    await until('all have arrived', () => arrived.size === 8);
    const body = (id) => arrived.get(`${id} 1`).body;
    assert.deepEqual(body('json'), { order: 1001, text: '世界' });
    assert.equal(body('text'), 'hello');
    assert.deepEqual(body('bytes'), Buffer.from([0, 255]));
    assert.equal(body('none'), '');
    assert.deepEqual(body('key'), [1]);
    assert.ok(arrived.has('again 2'));
    const failed = await until('the bad one has failed', async () => {
      const job = await client.get(topic, 'bad');
      return job.state === 'retry' && job;
    });
    assert.equal(failed.last_error, 'no such order');
    for (const id of ['json', 'text', 'bytes', 'none', 'key', 'again']) {
      await until(`${id} is finished`, () =>
        client.get(topic, id).then(
          () => false,
          ({ code }) => code === 'not_found',
        ),
      );
    }
    const { destinations } = await client.request('GET', '/v1/destinations');
    assert.ok(
      destinations.every(({ state }) => state === 'open'),
      'a job that fails closes no destination',
    );
  });

  test(`a stranger is turned away: ${name}`, async () => {
    const url = await serve(
      new Webhook({ secrets: SECRET, handlers: { a: () => assert.fail('a stranger got in') }, onError: () => {} }),
    );
    const post = (headers) =>
      fetch(`${url}/hooks`, {
        method: 'POST',
        body: '{"order":1}',
        headers: { 'content-type': 'application/json', ...headers },
      });
    assert.equal((await post({})).status, 401);
    assert.equal((await post(delivery({ secrets: [OTHER], headers: { 'linger-topic': 'a' } }))).status, 401);
    assert.equal((await post(delivery({ headers: { 'linger-topic': 'b' } }))).status, 404);
  });
}

test('a body that was parsed before is told, not guessed at', async () => {
  const errors = [];
  const webhook = new Webhook({ secrets: SECRET, handlers: { a: () => {} }, onError: (error) => errors.push(error) });
  const url = await listen(http.createServer(express().use(express.json()).post('/', webhook.express())));
  assert.equal(
    (await fetch(url, { method: 'POST', body: '{"order":1}', headers: delivery({ headers: { 'linger-topic': 'a' } }) }))
      .status,
    500,
  );
  assert.match(errors[0].message, /express\.raw/);
});

test('a body that is too large is refused', async () => {
  const webhook = new Webhook({ secrets: SECRET, bodyBytesMax: 10, handlers: { a: () => {} } });
  const url = await listen(http.createServer(webhook.express()));
  assert.equal((await fetch(url, { method: 'POST', body: '{"order":1}', headers: delivery() })).status, 413);
  assert.equal((await fetch(url)).status, 405);
});

test('a caller who hangs up is told to the handler', async () => {
  const started = gate();
  const told = gate();
  const handle = async (job, { signal }) => {
    started.open();
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    told.open(signal.reason.code);
  };
  const url = await listen(http.createServer(new Webhook({ secrets: SECRET, handlers: { a: handle } }).express()));
  const hangUp = new AbortController();
  const call = fetch(url, {
    method: 'POST',
    body: '{"order":1}',
    headers: delivery({ headers: { 'linger-topic': 'a' } }),
    signal: hangUp.signal,
  });
  await started.opened;
  hangUp.abort();
  await assert.rejects(call);
  assert.equal(await told.opened, 'lease_lost');
});
