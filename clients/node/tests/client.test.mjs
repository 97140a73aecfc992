// What one call does: bodies, lengths and moments, errors, time-outs, keys, TLS.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import net from 'node:net';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { Client, Job, LingerError, RawJson } from 'linger-queue';
import * as asModule from 'linger-queue';
import { folder, freePort, linger, listen, overloaded, proxy, until } from './harness.mjs';

let server;
let client;
before(async () => {
  server = await linger();
  client = new Client({ servers: server.url });
});

test('require gives the very same as import', () => {
  const required = createRequire(import.meta.url)('linger-queue');
  assert.deepEqual(Object.keys(asModule).sort(), Object.keys(required).sort());
  for (const name of Object.keys(required)) assert.equal(asModule[name], required[name], name);
});

test('the types name all that there is, and nothing else', () => {
  const types = readFileSync(new URL('../index.d.ts', import.meta.url), 'utf8');
  const declared = [...types.matchAll(/^export (?:class|function|const) (\w+)/gm)].map(([, name]) => name);
  assert.deepEqual(declared.sort(), Object.keys(asModule).sort());
});

test('bytes come back as bytes', async () => {
  const bytes = Buffer.from([0, 255, 254, 128]);
  for (const [id, body] of [
    ['buffer', bytes],
    ['view', new Uint8Array(bytes)],
    ['memory', new Uint8Array(bytes).buffer],
  ]) {
    await client.add({ topic: 'bytes', id, body });
    const job = await client.get('bytes', id);
    assert.deepEqual(job.body, bytes, id);
    assert.equal(job.text, undefined);
    assert.deepEqual(JSON.parse(JSON.stringify(job)).body_base64, 'AP/+gA==');
  }
});

test('JSON goes in and comes out to the byte, whatever numbers are in it', async () => {
  const raw = '{ "n": 12345678901234567890,  "x": 1.0e2, "s": "a\\"}, \\\\", "l": [[{"body": 1}]] }';
  await client.add({ topic: 'raw', id: '1', body: new RawJson(raw) });
  assert.equal((await client.get('raw', '1')).text, raw);
  await client.update('raw', '1', { body: new RawJson('[18446744073709551615]') });
  await client.addMany([
    { topic: 'raw', id: '2', body: 'just "text"', priority: 2000 },
    { topic: 'raw', id: '3', body: Buffer.from('x'), priority: 3000 },
  ]);
  await client.add({ body: new RawJson('[{"body":[0]}]'), topic: 'raw', id: '4', priority: 4000 });
  const jobs = await client.pop('raw', { max: 10, wait: '5s' });
  assert.deepEqual(
    jobs.map(({ id, text }) => [id, text]),
    [
      ['1', '[18446744073709551615]'],
      ['2', 'just "text"'],
      ['3', undefined],
      ['4', '[{"body":[0]}]'],
    ],
  );
  assert.ok(jobs[0] instanceof Job);
});

test('raw JSON brings no fields of its own', () => {
  assert.throws(() => new RawJson('1,"target":"http://elsewhere.example"'), SyntaxError);
});

test('a number is milliseconds wherever a length of time is taken', async () => {
  const job = await client.add({
    topic: 'lengths',
    id: '1',
    delay: 3_600_000.123456,
    ttr: 1500,
    retain: 60_000,
    retry: { ladder: [1000, '3m'] },
  });
  assert.ok(Math.abs(job.due - job.created - 3_600_000) < 1000);
  assert.equal(job.ttr, '1s500ms');
  assert.deepEqual(job.retry.ladder, ['1s', '3m']);
  const topic = await client.configure('lengths', { ttr: 5000, retry: { backoff: { base: 2000, max: 8000 } } });
  assert.equal(topic.settings.ttr, '5s');
  assert.equal(topic.settings.retry.backoff.max, '8s');
  const repeating = await client.add({
    topic: 'lengths',
    id: '2',
    repeat: { every: 60_000, until: new Date('2999-01-01') },
  });
  assert.equal(repeating.repeat.every, '1m');
});

test('moments are dates, in both directions', async () => {
  const at = new Date('2999-01-01T00:00:00.123Z');
  const job = await client.add({ topic: 'moments', id: '1', at });
  assert.deepEqual(job.due, at);
  assert.deepEqual((await client.hold('moments', '1')).job.due, at);
  assert.ok((await client.history('moments', '1'))[0].at instanceof Date);
  const found = [];
  for await (const { id } of client.jobs('moments', {
    due_after: new Date('2998-01-01'),
    due_before: '3000-01-01T00:00:00Z',
  }))
    found.push(id);
  assert.deepEqual(found, ['1']);
});

test('jobs and topics come page after page', async () => {
  await client.addMany(
    Array.from({ length: 7 }, (_, n) => ({ topic: `pages.${n % 3}`, id: String(n), delay: '1h', body: n })),
  );
  const topics = [];
  for await (const { topic } of client.topics({ prefix: 'pages.', limit: 2 })) topics.push(topic);
  assert.deepEqual(topics.sort(), ['pages.0', 'pages.1', 'pages.2']);
  const bodies = [];
  for await (const job of client.jobs('pages.0', { limit: 1, body: true })) bodies.push([job.body, job.text]);
  assert.deepEqual(bodies.sort(), [
    [0, '0'],
    [3, '3'],
    [6, '6'],
  ]);
});

test('a name of nothing but dots is a name', async () => {
  await client.add({ topic: '..', id: '.', delay: '1h', body: 1 });
  assert.equal((await client.get('..', '.')).body, 1);
  assert.equal((await client.forget('..')).count, 1);
});

test('a missing name is a mistake of the program, not the name `undefined`', async () => {
  await client.add({ topic: 'undefined', id: 'undefined', delay: '1h' });
  await assert.rejects(client.delete('undefined', undefined), TypeError);
  await assert.rejects(client.forget(), TypeError);
  assert.equal((await client.get('undefined', 'undefined')).state, 'delayed');
});

test('an error has code, status and field', async () => {
  const error = await client.add({ topic: 'errors', delay: 'soon' }).catch((error) => error);
  assert.ok(error instanceof LingerError && error instanceof Error);
  assert.deepEqual([error.code, error.status, error.field], ['invalid', 400, 'delay']);
  assert.match(error.message, /soon/);
  assert.ok(LingerError.is(error) && LingerError.is(error, 'not_found', 'invalid'));
  assert.ok(!LingerError.is(error, 'not_found') && !LingerError.is(new Error('invalid'), 'invalid'));
});

test('any other call can be made by its path', async () => {
  assert.equal((await client.request('GET', '/v1/stats')).store.kind, 'folder');
  await assert.rejects(client.request('POST', '/v1/secrets', { body: { topics: 'x' } }), {
    code: 'invalid',
    status: 400,
  });
});

test('a server that takes too long is unavailable, without a status', async () => {
  const silent = await listen(net.createServer());
  const slow = new Client({ servers: silent, timeout: '50ms' });
  await assert.rejects(slow.get('a', '1'), {
    name: 'LingerError',
    code: 'unavailable',
    status: undefined,
    message: /no answer within 0.05 s/,
  });
});

test('a connection that does not come about is unavailable', async () => {
  const mute = await listen(net.createServer());
  const secure = new Client({ servers: mute.replace('http:', 'https:'), connectTimeout: 50 });
  await assert.rejects(secure.get('a', '1'), {
    code: 'unavailable',
    status: undefined,
    message: /no connection within 0.05 s/,
  });
  const nobody = new Client({ servers: `http://127.0.0.1:${await freePort()}` });
  await assert.rejects(nobody.get('a', '1'), { code: 'unavailable', status: undefined, message: /ECONNREFUSED/ });
});

test('the wait of a pop is no time-out', async () => {
  const hasty = new Client({ servers: server.url, timeout: 500 });
  assert.deepEqual(await hasty.pop('nothing', { wait: '700ms' }), []);
});

test('an aborted signal hangs up, and its reason is what is thrown', async () => {
  const hangUp = new AbortController();
  const waiting = client.pop('aborted', { wait: '1m', signal: hangUp.signal });
  await until('the pop waits', async () => (await client.topic('aborted').catch(() => ({}))).waiting === 1);
  hangUp.abort(new Error('enough'));
  await assert.rejects(waiting, /enough/);
  await until('nobody waits', async () => (await client.topic('aborted').catch(() => ({}))).waiting !== 1);
  await assert.rejects(client.add({}, { signal: AbortSignal.abort() }), { name: 'AbortError' });
});

test('an answer that is not of Linger is told as that', async () => {
  const other = await listen(
    http.createServer((request, response) => response.writeHead(Number(request.url.slice(-3))).end('<html>')),
  );
  const lost = new Client({ servers: other });
  await assert.rejects(lost.topic('404'), { code: 'invalid', status: 404 });
  await assert.rejects(lost.topic('200'), { code: 'unavailable', status: 200 });
  await assert.rejects(lost.topic('502'), { code: 'unavailable', status: 502 });
});

test('addresses and key come from the environment, several with commas', async (t) => {
  const { url, seen } = await proxy(server.url);
  t.after(() => ['LINGER_SERVER', 'LINGER_KEY'].forEach((name) => delete process.env[name]));
  process.env.LINGER_SERVER = `http://127.0.0.1:${await freePort()}, ${url}/`;
  process.env.LINGER_KEY = 'lk_fromhere';
  await new Client().add({ topic: 'environment', delay: '1h' });
  assert.equal(seen[0].headers.authorization, 'Bearer lk_fromhere');
  assert.throws(() => new Client({ servers: 'localhost:7300' }), /http:\/\/127.0.0.1:7300/);
});

test('a server behind a path of its own is called there', async () => {
  const behind = await proxy(server.url, ({ path }) => ({ status: 200, body: { topic: path } }));
  assert.equal((await new Client({ servers: `${behind.url}/queue/` }).topic('a')).topic, '/queue/v1/topics/a');
});

test('a server with keys wants one', async () => {
  const key = 'a-key-of-more-than-sixteen-characters';
  const { url } = await linger({ env: { LINGER_BOOTSTRAP_KEY: key } });
  await assert.rejects(new Client({ servers: url }).add({}), { code: 'unauthorized', status: 401 });
  await assert.rejects(new Client({ servers: url, key: 'lk_wrong' }).add({}), { code: 'unauthorized', status: 401 });
  const admin = new Client({ servers: url, key });
  const { key: reader } = await admin.request('POST', '/v1/keys', { body: { name: 'reader', scopes: ['read'] } });
  await assert.rejects(new Client({ servers: url, key: reader }).add({}), { code: 'forbidden', status: 403 });
  assert.equal((await admin.add({ topic: 'keys' })).topic, 'keys');
});

test("TLS by an authority of one's own", async () => {
  const path = folder();
  const openssl = (...args) => execFileSync('openssl', args, { cwd: path, stdio: 'pipe' });
  const ec = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
  openssl('req', '-x509', ...ec, '-days', '2', '-subj', '/CN=authority', '-keyout', 'ca-key.pem', '-out', 'ca.pem');
  openssl(
    'req',
    ...ec,
    '-subj',
    '/CN=linger',
    '-addext',
    'subjectAltName=IP:127.0.0.1',
    '-keyout',
    'key.pem',
    '-out',
    'csr.pem',
  );
  openssl(
    'x509',
    '-req',
    '-in',
    'csr.pem',
    '-CA',
    'ca.pem',
    '-CAkey',
    'ca-key.pem',
    '-days',
    '2',
    '-copy_extensions',
    'copy',
    '-out',
    'cert.pem',
  );
  const { url } = await linger({
    args: ['--set', `tls.cert=${join(path, 'cert.pem')}`, '--set', `tls.key=${join(path, 'key.pem')}`],
  });
  assert.match(url, /^https:/);
  const trusting = new Client({ servers: url, ca: readFileSync(join(path, 'ca.pem')) });
  await trusting.add({ topic: 'tls', body: 1 });
  const [job] = await trusting.pop('tls', { wait: '5s' });
  assert.ok((await trusting.finish(job)).changed);
  await assert.rejects(new Client({ servers: url }).get('tls', '1'), {
    code: 'unavailable',
    status: undefined,
    message: /certificate/,
  });
});

test('connections are kept and used again', async () => {
  let connections = 0;
  const counting = http.createServer((request, response) => response.end('{}'));
  counting.on('connection', () => connections++);
  const keeping = new Client({ servers: await listen(counting) });
  for (let n = 0; n < 5; n++) await keeping.topic('a');
  assert.equal(connections, 1);
  const closed = once(counting, 'connection');
  keeping.close();
  await keeping.topic('a');
  await closed;
  assert.equal(connections, 2);
});

test('a rate limit is told and not tried again; too much work is tried again once', async () => {
  const limited = { status: 429, body: { error: { code: 'rate_limited', message: 'too many' } } };
  const strict = await proxy(server.url, () => limited);
  await assert.rejects(new Client({ servers: strict.url }).topic('a'), { code: 'rate_limited', status: 429 });
  assert.equal(strict.seen.length, 1);
  const busy = await proxy(server.url, () => overloaded);
  await assert.rejects(new Client({ servers: busy.url }).redrive('a'), { code: 'overloaded', status: 503 });
  assert.equal(busy.seen.length, 2);
});
