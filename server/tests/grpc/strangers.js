// A worker's day by Node's grpc-js, which knows nothing of Linger but its description.
'use strict';

const assert = require('assert');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const [address, folder] = process.argv.slice(2);
const load = (file) =>
  grpc.loadPackageDefinition(
    loader.loadSync(file, {
      includeDirs: [folder],
      keepCase: true,
      longs: String,
      enums: String,
      arrays: true,
    }),
  );
const { Queue, Topics } = load('linger/v1/linger.proto').linger.v1;
const { DelayQueue } = load('pb/delay_queue.proto').pb;
const insecure = grpc.credentials.createInsecure();
const queue = new Queue(address, insecure);
const topics = new Topics(address, insecure);
const delays = new DelayQueue(address, insecure);

const call = (client, method, request, options = {}) =>
  new Promise((done, failed) =>
    client[method](request, options, (error, answer) => (error ? failed(error) : done(answer))),
  );

async function refused(promise, status, code, field) {
  const error = await promise.then(
    () => assert.fail('it was not refused'),
    (error) => error,
  );
  assert.strictEqual(error.code, status, String(error));
  assert.deepStrictEqual(error.metadata.get('linger-code'), [code]);
  assert.deepStrictEqual(error.metadata.get('linger-field'), field ? [field] : []);
}

async function main() {
  // One by one.
  const job = {
    topic: 'order.close',
    id: '1001',
    body: Buffer.from('{"order": 1001}'),
    body_form: 'BODY_FORM_JSON',
    delay: { seconds: 1800 },
  };
  const added = await call(queue, 'Add', { job });
  assert.strictEqual(added.job.state, 'STATE_DELAYED');
  await refused(call(queue, 'Add', { job }), grpc.status.ALREADY_EXISTS, 'already_exists', 'id');
  await call(queue, 'Run', { topic: 'order.close', id: '1001' });
  const popped = await call(queue, 'Pop', { topics: ['order.close'], wait: { seconds: 30 } });
  const [{ lease, job: mine }] = popped.jobs;
  assert.strictEqual(mine.body.toString(), '{"order": 1001}');
  await call(queue, 'Finish', { topic: 'order.close', id: '1001', lease });
  const gone = call(queue, 'Get', { topic: 'order.close', id: '1001' });
  await refused(gone, grpc.status.NOT_FOUND, 'not_found');

  // By stream: 500 jobs, never more than 20 at once.
  const jobs = Array.from({ length: 500 }, (_, n) => ({ topic: 'mail', id: String(n) }));
  const { results } = await call(queue, 'AddMany', { jobs });
  assert.ok(results.every((result) => result.added));
  const seen = new Set();
  await new Promise((done, failed) => {
    const stream = queue.Consume();
    let settled = 0;
    stream.on('data', (message) => {
      settled += message.settled.length;
      if (message.settled.some((one) => one.error)) failed(new Error('a finish was refused'));
      for (const { job } of message.jobs) seen.add(job.id);
      const settlements = message.jobs.map(({ lease, job }) => ({
        number: job.number,
        lease,
        finish: {},
      }));
      stream.write({ settlements, credit: message.settled.length });
      if (settled === 500) stream.end();
    });
    stream.on('end', done);
    stream.on('error', failed);
    stream.write({ subscribe: { topics: ['mail'] }, credit: 20 });
  });
  assert.strictEqual(seen.size, 500);

  // Topics, and the second lineage's service.
  const topic = await call(topics, 'Pause', { topic: 'mail', pause_for: { seconds: 60 } });
  assert.ok(topic.paused);
  await call(topics, 'Resume', { topic: 'mail' });
  const { uid } = await call(delays, 'Add', {
    name: 'bill',
    time: { duration: 600, relative: true },
    callback: { schema: 'http', address: '127.0.0.1:9', path: '/done' },
  });
  assert.strictEqual((await call(delays, 'Get', { uid })).type, 'TaskDelay');
  await call(delays, 'Remove', { uid });
  console.log('all well');
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
