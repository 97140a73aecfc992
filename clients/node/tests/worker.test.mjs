// The worker: hands, outcomes, leases, and how it stops.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Again, Client, LingerError, RetryIn, Worker } from 'linger-queue';
import { gate, isEmpty, linger, proxy, unavailable, until } from './harness.mjs';

let server;
let client;
before(async () => {
  server = await linger();
  client = new Client({ servers: server.url });
});

/** A worker on one topic, stopped with the test; errors that it tells are kept. */
function work(t, topic, handler, options = {}) {
  const { client: by = client, ...rest } = options;
  const errors = [];
  const worker = new Worker(by, {
    handlers: { [topic]: handler },
    onError: (error, job) => errors.push({ error, job }),
    ...rest,
  });
  t.after(() => worker.stop({ grace: 0 }));
  return Object.assign(worker.start(), { errors });
}

const gone = (topic, id) =>
  client.get(topic, id).then(
    () => false,
    (error) => LingerError.is(error, 'not_found'),
  );
const stateOf = async (topic, id) => (await client.get(topic, id)).state;

test('as many jobs are worked on at once as there are hands, and all are finished', async (t) => {
  await client.addMany(Array.from({ length: 10 }, (_, n) => ({ topic: 'w.hands', id: String(n), body: { n } })));
  const busy = [];
  let most = 0;
  const bodies = [];
  work(
    t,
    'w.hands',
    async (job) => {
      const { open, opened } = gate();
      most = Math.max(most, busy.push(open));
      await opened;
      bodies.push(job.body.n);
    },
    { concurrency: 3 },
  );
  for (let left = 10; left > 0; left--) {
    await until('all hands are at work', () => busy.length === Math.min(left, 3));
    assert.ok((await client.topic('w.hands')).counts.reserved <= 3, 'no more are leased than there are hands');
    busy.shift()();
  }
  await until('all are finished', () => isEmpty(client, 'w.hands'));
  assert.equal(most, 3);
  assert.deepEqual(bodies.sort(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
});

test('one worker serves several topics in one call', async (t) => {
  const { url, seen } = await proxy(server.url);
  const done = [];
  const handle = (job) => void done.push(job.topic);
  const worker = new Worker(new Client({ servers: url }), { handlers: { 'w.a': handle, 'w.b': handle } });
  t.after(() => worker.stop());
  worker.start();
  await client.addMany([{ topic: 'w.a' }, { topic: 'w.b' }]);
  await until('both are done', () => done.length === 2);
  assert.deepEqual(JSON.parse(seen[0].body), { topics: ['w.a', 'w.b'], max: 8, wait: '30s' });
});

test('no more is asked for at once than a server hands out', async (t) => {
  const { url, seen } = await proxy(server.url);
  work(t, 'w.many', () => {}, { client: new Client({ servers: url }), concurrency: 5000 });
  await until('it has asked', () => seen.length > 0);
  assert.equal(JSON.parse(seen[0].body).max, 1000);
});

test('a handler that throws fails the job, with the text of the error', async (t) => {
  const retry = { attempts: 3, backoff: { base: '1h' } };
  const thrown = {
    error: new Error('the bank is closed'),
    text: 'just text',
    empty: new TypeError(),
    other: { reason: 7 },
    long: 'x'.repeat(100_000),
  };
  await client.addMany(Object.keys(thrown).map((id) => ({ topic: 'w.fail', id, retry })));
  const { errors } = work(t, 'w.fail', (job) => {
    throw thrown[job.id];
  });
  for (const id of Object.keys(thrown))
    await until(`${id} has failed`, async () => (await stateOf('w.fail', id)) === 'retry');
  const told = async (id) => (await client.get('w.fail', id)).last_error;
  assert.equal(await told('error'), 'the bank is closed');
  assert.equal(await told('text'), 'just text');
  assert.equal(await told('empty'), 'TypeError');
  assert.equal(await told('other'), '{ reason: 7 }');
  assert.match(await told('long'), /^x{1000,}$/);
  assert.ok(errors.some(({ error, job }) => error === thrown.error && job.id === 'error'));
});

test('RetryIn says when to try again', async (t) => {
  await client.add({ topic: 'w.retry', id: '1', retry: { attempts: 3, backoff: { base: '1h' } } });
  const attempts = [];
  work(t, 'w.retry', (job) => {
    attempts.push([job.attempt, job.last_error]);
    if (job.attempt === 1) throw new RetryIn('1ms', new Error('busy'));
    if (job.attempt === 2) throw new RetryIn(1);
  });
  await until('it is finished', () => gone('w.retry', '1'));
  assert.deepEqual(attempts, [
    [1, undefined],
    [2, 'busy'],
    [3, 'to be tried again in 1'],
  ]);
});

test('Again is not yet, and no failure', async (t) => {
  await client.addMany(['1', '2'].map((id) => ({ topic: 'w.again', id, retry: { ladder: ['1h'] } })));
  const { errors } = work(t, 'w.again', (job) => {
    if (job.id === '1') throw new Again();
    if (job.attempt === 1) throw new Again('1ms');
  });
  await until('the second is finished', () => gone('w.again', '2'));
  await until('the first waits for its step', async () => (await stateOf('w.again', '1')) === 'retry');
  assert.equal((await client.get('w.again', '1')).last_error, undefined);
  assert.deepEqual(errors, []);
  const { totals } = await client.request('GET', '/v1/stats');
  assert.equal(totals.again, 2);
});

describe('leases are kept', { concurrency: true }, () => {
  for (const [from, job, options] of [
    ['its own', { ttr: '3s' }, {}],
    ["the worker's", {}, { ttr: 3000 }],
    ["the topic's", {}, {}],
  ]) {
    test(`a job whose handler takes longer than ${from} ttr is not handed out again`, async (t) => {
      const topic = `w.touch ${from}`;
      if (from === "the topic's") await client.configure(topic, { ttr: '3s' });
      await client.add({ topic, id: '1', ...job });
      let runs = 0;
      const worker = work(
        t,
        topic,
        async (job, { signal }) => {
          runs++;
          assert.ok(job.reserved_until - Date.now() < 3100, 'the lease is as short as it was asked for');
          // Longer than the lease: nobody would have it any more without a touch.
          await sleep(job.reserved_until.getTime() + 1000 - Date.now());
          assert.ok(!signal.aborted);
        },
        options,
      );
      await until('the handler works', () => runs === 1);
      assert.deepEqual(await client.pop(topic, { wait: 3900 }), [], 'nobody else gets it');
      await until('it is finished', () => gone(topic, '1'));
      assert.equal(runs, 1);
      assert.deepEqual(worker.errors, []);
    });
  }
});

test('the lease is kept however wrong the clocks are', async (t) => {
  const hour = 3_600_000;
  const lease = { topic: 'w.clock', id: '1', lease: '00', attempt: 1 };
  let answered = false;
  // A server whose clock is an hour ahead: without a look at its clock, half of this lease would be half an hour.
  const { url, seen } = await proxy(
    '',
    ({ path }) => {
      if (path !== '/v1/pop' || answered) return { status: 200, body: { jobs: [], changed: true } };
      answered = true;
      return {
        status: 200,
        headers: {},
        body: { jobs: [{ ...lease, reserved_until: new Date(Date.now() + hour + 1000).toISOString() }] },
      };
    },
    { date: () => new Date(Date.now() + hour).toUTCString() },
  );
  const touched = () => seen.some(({ path }) => path.endsWith('/touch'));
  let runs = 0;
  work(
    t,
    'w.clock',
    async () => {
      runs++;
      await until('it was touched', touched);
    },
    { client: new Client({ servers: url }), wait: 0, concurrency: 1 },
  );
  await until('the handler has seen a touch', () => seen.some(({ path }) => path.endsWith('/finish')));
  assert.equal(runs, 1);
});

test('a lease that was lost is told to the handler, and nothing is said of its outcome', async (t) => {
  const { url, seen } = await proxy(server.url);
  const told = [];
  const worker = work(
    t,
    'w.lost',
    async (job, { signal }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      told.push([job.id, signal.reason.code]);
      if (job.id === 'taken') throw new Error("this is nobody's business any more");
    },
    { client: new Client({ servers: url }), ttr: '3s' },
  );
  await client.addMany(['deleted', 'taken'].map((id) => ({ topic: 'w.lost', id })));
  await until('both are at work', async () => (await client.topic('w.lost')).counts.reserved === 2);
  await client.delete('w.lost', 'deleted');
  await client.release({ topic: 'w.lost', id: 'taken' }, { delay: '1h' });
  await until('both are told', () => told.length === 2);
  assert.deepEqual(told.sort(), [
    ['deleted', 'not_found'],
    ['taken', 'lease_lost'],
  ]);
  await worker.stop();
  assert.deepEqual(
    seen.filter(({ path }) => /finish|fail|release/.test(path)),
    [],
  );
  assert.equal((await client.get('w.lost', 'taken')).last_error, undefined);
});

for (const [how, trouble] of [
  ['is away', unavailable],
  ['does not answer', 'hang'],
]) {
  test(`a lease that nobody could prolong is lost when it is over: the server ${how}`, async (t) => {
    let away = false;
    const { url } = await proxy(server.url, () => (away ? trouble : undefined));
    const topic = `w.over ${how}`;
    await client.add({ topic, id: '1' });
    let reason;
    let took;
    const { errors } = work(
      t,
      topic,
      async (job, { signal }) => {
        away = true;
        const began = performance.now();
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
        reason = signal.reason;
        took = performance.now() - began;
      },
      // With hands for no more, so that nobody pops while the server is away.
      { client: new Client({ servers: url }), ttr: '400ms', concurrency: 1 },
    );
    await until('the handler is told', () => reason);
    assert.equal(reason.code, 'lease_lost');
    assert.ok(took > 300 && took < 5000, `after ${took} ms, and not when the touch was given up`);
    assert.ok(errors.some(({ error }) => error === reason));
  });
}

test('an outcome is told until the server has heard it', async (t) => {
  const { url, seen } = await proxy(server.url, ({ path }) =>
    path.endsWith('/finish') && finishes() <= 4 ? unavailable : undefined,
  );
  const finishes = () => seen.filter(({ path }) => path.endsWith('/finish')).length;
  await client.add({ topic: 'w.settle', id: '1', ttr: '1m' });
  let runs = 0;
  work(t, 'w.settle', () => void runs++, { client: new Client({ servers: url }) });
  await until('it is finished', () => gone('w.settle', '1'));
  assert.deepEqual([runs, finishes()], [1, 5]);
});

test('a server that is away is asked again, after pauses that grow', async (t) => {
  const times = [];
  let away = true;
  const { url } = await proxy(server.url, ({ path }) => {
    if (path === '/v1/pop') times.push(performance.now());
    return away ? unavailable : undefined;
  });
  let runs = 0;
  work(t, 'w.away', () => void runs++, { client: new Client({ servers: url }) });
  await until('it was asked some times', () => times.length >= 8);
  away = false;
  await client.add({ topic: 'w.away' });
  await until('it works', () => runs === 1);
  // Two requests a call; what is between the calls is at least 0.1, 0.2, 0.4 s.
  const pauses = [2, 4, 6].map((n) => times[n] - times[n - 1]);
  pauses.forEach((pause, n) => assert.ok(pause > 95 * 2 ** n, `pauses are ${pauses}`));
});

test('stop waits for handlers, whose jobs are finished', async (t) => {
  const { open, opened } = gate();
  let started = false;
  const worker = work(t, 'w.stop', async () => {
    started = true;
    await opened;
  });
  await client.addMany([{ topic: 'w.stop', id: '1' }]);
  await until('the handler works', () => started);
  let over = false;
  const stopped = worker.stop().then(() => (over = true));
  await client.add({ topic: 'w.stop', id: '2' });
  await until('it waits for no more', async () => (await client.topic('w.stop')).waiting === 0);
  assert.equal(over, false);
  open();
  await stopped;
  assert.ok(await gone('w.stop', '1'));
  assert.deepEqual([await stateOf('w.stop', '2'), (await client.get('w.stop', '2')).attempt], ['ready', 0]);
  assert.equal(worker.stop(), worker.stop(), 'a second stop is the same');
});

test('stop tells and releases what is left after the grace', async (t) => {
  let signal;
  const { open, opened } = gate();
  const worker = work(t, 'w.grace', async (job, context) => {
    ({ signal } = context);
    await opened;
  });
  await client.add({ topic: 'w.grace', id: '1', ttr: '10m' });
  await until('the handler works', () => signal);
  await worker.stop({ grace: '50ms' });
  assert.ok(signal.aborted);
  const job = await client.get('w.grace', '1');
  assert.deepEqual([job.state, job.attempt], ['ready', 0]);
  open();
  await sleep(0);
  assert.equal(await stateOf('w.grace', '1'), 'ready', 'a handler that ends later says nothing');
});

test('stop does not wait for a free hand', async (t) => {
  let busy = false;
  const worker = work(t, 'w.busy', () => ((busy = true), new Promise(() => {})), { concurrency: 1 });
  await client.add({ topic: 'w.busy', id: '1', ttr: '10m' });
  await until('all hands are at work', () => busy);
  await worker.stop({ grace: '50ms' });
  assert.equal(await stateOf('w.busy', '1'), 'ready');
});

test('stop hangs up a pop that waits, which leases nothing', async (t) => {
  const worker = work(t, 'w.hang', () => {});
  await until('it waits', async () => (await client.topic('w.hang').catch(() => ({}))).waiting === 1);
  await worker.stop();
  await until('nobody waits', async () => (await client.topic('w.hang').catch(() => ({}))).waiting !== 1);
  await client.add({ topic: 'w.hang', id: '1' });
  const [job] = await client.pop('w.hang', { wait: '5s' });
  assert.equal(job.attempt, 1);
});

test('jobs that come while it stops are given back', async (t) => {
  let worker;
  // The worker is told to stop when the head of the answer is there, and its end is not.
  const { url } = await proxy(server.url, undefined, {
    beforeEnd: ({ path }) => path === '/v1/pop' && void worker.stop(),
  });
  await client.add({ topic: 'w.late', id: '1' });
  worker = work(t, 'w.late', () => assert.fail('it was told to stop'), { client: new Client({ servers: url }) });
  await until('the job is given back', async () => (await client.get('w.late', '1')).version > 2);
  const job = await client.get('w.late', '1');
  assert.deepEqual([job.state, job.attempt], ['ready', 0]);
  await worker.stop();
});

test('a worker without handlers, or hands, is a mistake', () => {
  assert.throws(() => new Worker(client, { handlers: {} }), TypeError);
  assert.throws(() => new Worker(client, { handlers: { a: 'b' } }), TypeError);
  assert.throws(() => new Worker(client, { handlers: { a: () => {} }, concurrency: 0 }), TypeError);
});
