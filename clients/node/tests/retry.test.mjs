// The one safe retry, and several servers: which calls are made once more, where, and what is thought of the answer.
import assert from 'node:assert/strict';
import http from 'node:http';
import { before, test } from 'node:test';
import { Client, RawJson } from 'linger-queue';
import { freePort, linger, listen, overloaded, proxy, unavailable } from './harness.mjs';

let server;
let direct;
before(async () => {
  server = await linger();
  direct = new Client({ servers: server.url });
});

/** A client whose first answer gets lost on the way, after the server has done what was asked. */
async function unlucky(trouble = (call, count) => (count === 1 ? 'lose' : undefined)) {
  const { url, seen } = await proxy(server.url, trouble);
  return { client: new Client({ servers: url }), seen };
}

const count = async (topic) => Object.values((await direct.topic(topic)).counts).reduce((sum, n) => sum + n);

test('an add whose answer was lost has added one job', async () => {
  const { client, seen } = await unlucky();
  const job = await client.add({ topic: 'r.add', delay: '1h', body: 1 });
  assert.equal(seen.length, 2);
  assert.equal(await count('r.add'), 1);
  assert.equal((await direct.get('r.add', job.id)).body, 1);
});

test("each add has a key of its own, or the caller's", async () => {
  const { client, seen } = await unlucky(() => undefined);
  await client.add({ topic: 'r.key', delay: '1h' });
  await client.add({ topic: 'r.key', delay: '1h' });
  assert.equal(await count('r.key'), 2);
  await client.add({ topic: 'r.key', delay: '1h' }, { idempotencyKey: 'order-1' });
  await client.add({ topic: 'r.key', delay: '1h' }, { idempotencyKey: 'order-1' });
  assert.equal(await count('r.key'), 3);
  assert.equal(seen[2].headers['idempotency-key'], 'order-1');
});

test('an add with an id is made once more only if that is harmless', async () => {
  for (const [on_conflict, requests] of [
    [undefined, 1],
    ['reject', 1],
    ['keep', 2],
    ['replace', 2],
  ]) {
    const { client, seen } = await unlucky();
    const added = client.add({ topic: 'r.named', id: `${on_conflict}`, delay: '1h', on_conflict });
    if (requests === 1) await assert.rejects(added, { code: 'unavailable', status: undefined }, on_conflict);
    else assert.equal((await added).id, on_conflict);
    assert.equal(seen.length, requests, on_conflict);
    assert.equal((await direct.get('r.named', `${on_conflict}`)).state, 'delayed');
  }
});

test('many jobs without ids are there once, though the answer was lost', async () => {
  const { client, seen } = await unlucky();
  const added = await client.addMany([
    { topic: 'r.many', delay: '1h', body: new RawJson('1') },
    { topic: 'r.many', delay: '1h' },
    { topic: 'r.many', id: 'k', delay: '1h', on_conflict: 'keep' },
  ]);
  assert.equal(seen.length, 2);
  assert.ok(added.every(({ job }) => job));
  assert.equal(await count('r.many'), 3);
});

test('many jobs are not added once more if one of them would be refused', async () => {
  const { client, seen } = await unlucky();
  await assert.rejects(
    client.addMany([
      { topic: 'r.some', delay: '1h' },
      { topic: 'r.some', id: 'k', delay: '1h' },
    ]),
    { code: 'unavailable' },
  );
  assert.equal(seen.length, 1);
  assert.equal(await count('r.some'), 2);
});

for (const verb of ['finish', 'fail', 'release']) {
  test(`a ${verb} with a lease whose answer was lost is done`, async () => {
    const topic = `r.${verb}`;
    await direct.add({ topic, id: '1' });
    const [job] = await direct.pop(topic, { wait: '5s' });
    const { client, seen } = await unlucky();
    assert.deepEqual(await client[verb](job), { changed: true });
    assert.equal(seen.length, 2);
    await assert.rejects(
      client[verb](job),
      { code: verb === 'finish' ? 'not_found' : 'lease_lost' },
      'what was never lost is told',
    );
  });

  test(`a ${verb} without a lease is not made once more`, async () => {
    const topic = `r.${verb}.free`;
    await direct.add({ topic, id: '1' });
    await direct.pop(topic, { wait: '5s' });
    const { client, seen } = await unlucky();
    await assert.rejects(client[verb]({ topic, id: '1' }), { code: 'unavailable' });
    assert.equal(seen.length, 1);
  });
}

test('a delete whose answer was lost is done; with if_version it is not made once more', async () => {
  for (const id of ['1', '2']) await direct.add({ topic: 'r.delete', id, delay: '1h' });
  const { client, seen } = await unlucky();
  assert.deepEqual(await client.delete('r.delete', '1'), { changed: true });
  assert.equal(seen.length, 2);
  const guarded = await unlucky();
  await assert.rejects(guarded.client.delete('r.delete', '2', { if_version: 1 }), { code: 'unavailable' });
  assert.equal(guarded.seen.length, 1);
});

test('a job that was never there is not found, however the first try was turned away', async () => {
  const { client, seen } = await unlucky((call, count) => (count === 1 ? overloaded : undefined));
  await assert.rejects(client.delete('r.delete', 'nobody'), { code: 'not_found' });
  assert.equal(seen.length, 2);
});

test('which calls are made once more when their answer was lost', async () => {
  const topic = 'r.calls';
  const lost = async (makes, call) => {
    const { client, seen } = await unlucky();
    await call(client).catch((error) => assert.equal(error.code, 'unavailable'));
    assert.equal(seen.length, makes, `${seen[0].method} ${seen[0].path} ${seen[0].body}`);
  };
  await direct.addMany([1, 2].map((n) => ({ topic, id: String(n), delay: '1h' })));
  await direct.add({ topic, id: 'due' });
  const first = (items) => items.next();
  await lost(2, (client) => client.get(topic, '1'));
  await lost(2, (client) => client.history(topic, '1'));
  await lost(2, (client) => first(client.jobs(topic)));
  await lost(2, (client) => first(client.topics()));
  await lost(2, (client) => client.topic(topic));
  await lost(2, (client) => client.pop(topic));
  await lost(2, (client) => client.touch({ topic, id: 'due' }));
  await lost(2, (client) => client.update(topic, '1', { priority: 1 }));
  await lost(1, (client) => client.update(topic, '1', { priority: 2 }, { if_version: 2 }));
  await lost(2, (client) => client.hold(topic, '1'));
  await lost(1, (client) => client.hold(topic, '1', { if_version: 3 }));
  await lost(2, (client) => client.unhold(topic, '1'));
  await lost(1, (client) => client.run(topic, '1'));
  await lost(2, (client) => client.configure(topic, { ttr: '5s' }));
  await lost(2, (client) => client.pause(topic));
  await lost(2, (client) => client.resume(topic));
  await lost(1, (client) => client.redrive(topic));
  await lost(2, (client) => client.empty(topic));
  await lost(2, async (client) => assert.deepEqual(await client.forget(topic), { count: 0 }));
  await lost(2, (client) => client.request('GET', '/v1/stats'));
  await lost(1, (client) => client.request('POST', '/v1/secrets', { body: { topic } }));
});

test('a topic that is gone at the second try is taken as emptied', async () => {
  const missing = { status: 404, body: { error: { code: 'not_found', message: 'there is no such topic' } } };
  for (const call of ['empty', 'forget']) {
    const { client, seen } = await unlucky((_, count) => (count === 1 ? 'lose' : missing));
    assert.deepEqual(await client[call]('r.emptied'), { count: 0 });
    assert.equal(seen.length, 2);
    await assert.rejects(client[call]('r.emptied'), { code: 'not_found' });
  }
});

test('an answer is made up for once, and no more', async () => {
  const { client, seen } = await unlucky(() => 'lose');
  await assert.rejects(client.topic('r.add'), { code: 'unavailable', status: undefined });
  assert.equal(seen.length, 2);
});

test('a pop whose answer was lost is made again, and what that had comes back', async () => {
  await direct.addMany(['1s', '1m'].map((ttr, n) => ({ topic: 'r.pop', id: String(n + 1), ttr, priority: n + 1 })));
  const { client } = await unlucky();
  assert.deepEqual(
    (await client.pop('r.pop', { wait: '5s' })).map(({ id }) => id),
    ['2'],
  );
  assert.deepEqual(
    (await client.pop('r.pop', { wait: '10s' })).map(({ id }) => id),
    ['1'],
  );
});

test('a server that cannot be reached is left for the next, which is kept', async () => {
  const { url, seen } = await proxy(server.url);
  const nobody = `http://127.0.0.1:${await freePort()}`;
  const client = new Client({ servers: [nobody, url] });
  // Never repeated after it was sent; but this one never was.
  await client.redrive('r.away');
  await client.redrive('r.away');
  assert.equal(seen.length, 2);
});

test('a server that is unavailable is left for the next, which is kept', async () => {
  const stopping = await proxy(server.url, () => unavailable);
  const good = await proxy(server.url);
  const client = new Client({ servers: [stopping.url, good.url] });
  await client.topic('r.add');
  await client.topic('r.add');
  assert.deepEqual([stopping.seen.length, good.seen.length], [1, 2]);
});

test('a server that is unavailable may have done it, so what would do harm is not asked for again', async () => {
  const stopping = await proxy(server.url, () => unavailable);
  const good = await proxy(server.url);
  const client = new Client({ servers: [stopping.url, good.url] });
  await assert.rejects(client.redrive('r.away'), { code: 'unavailable', status: 503 });
  assert.deepEqual([stopping.seen.length, good.seen.length], [1, 0]);
});

test('with several servers a lost answer is made up for at the next', async () => {
  const losing = await proxy(server.url, () => 'lose');
  const good = await proxy(server.url);
  const client = new Client({ servers: [losing.url, good.url] });
  await client.add({ topic: 'r.next', delay: '1h' });
  assert.deepEqual([losing.seen.length, good.seen.length], [1, 1]);
  assert.equal(await count('r.next'), 1);
});

test('with several servers, too, an answer is made up for once', async () => {
  const losing = await Promise.all([1, 2, 3].map(() => proxy(server.url, () => 'lose')));
  await assert.rejects(new Client({ servers: losing.map(({ url }) => url) }).topic('r.add'), { code: 'unavailable' });
  assert.deepEqual(
    losing.map(({ seen }) => seen.length),
    [1, 1, 0],
  );
});

test('each server is tried once a call at most', async () => {
  const stopping = await Promise.all([1, 2, 3].map(() => proxy(server.url, () => unavailable)));
  const client = new Client({ servers: stopping.map(({ url }) => url) });
  await assert.rejects(client.topic('a'), { code: 'unavailable', status: 503 });
  assert.deepEqual(
    stopping.map(({ seen }) => seen.length),
    [1, 1, 1],
  );
});

test('a server alone is tried twice', async () => {
  const stopping = await proxy(server.url, (call, count) => (count === 1 ? unavailable : undefined));
  await new Client({ servers: stopping.url }).topic('r.add');
  assert.equal(stopping.seen.length, 2);
});

test('an answer that breaks off is one that was lost', async () => {
  let requests = 0;
  const broken = http.createServer((request, response) => {
    requests++;
    if (requests > 1) return response.end('{"topic":"a"}');
    response.writeHead(200, { 'content-length': 100 }).write('{"topic"');
    setImmediate(() => response.destroy());
  });
  assert.equal((await new Client({ servers: await listen(broken) }).topic('a')).topic, 'a');
});
