// Programs as users have them: the examples, those of the README, and the package as it is shipped.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Client } from 'linger-queue';
import { LINGER, folder, freePort, isEmpty, linger, listen, run, until } from './harness.mjs';

const PACKAGE = fileURLToPath(new URL('..', import.meta.url));
const README = readFileSync(join(PACKAGE, 'README.md'), 'utf8');
const JOBS = 1000;

let server;
let client;
let secret;
before(async () => {
  server = await linger();
  client = new Client({ servers: server.url });
  ({ secret } = await client.request('POST', '/v1/secrets', { body: { topic: 'order.close' } }));
});

/** Starts a program of the README, which says its name in its first line. */
function program(name, env = {}) {
  const [, code] = new RegExp('```js\n(// ' + name + '\n.*?)```', 's').exec(README);
  // Beside the package, so that it finds that by its name.
  const path = join(PACKAGE, 'readme');
  mkdirSync(path, { recursive: true });
  writeFileSync(join(path, name), code);
  return run(process.execPath, [join(path, name)], { LINGER_SERVER: server.url, LINGER_SECRET: secret, ...env });
}

test('the README: a whole program', async () => {
  const shop = program('shop.mjs');
  assert.equal(await shop.ended, 0, shop.lines.join('\n'));
  assert.deepEqual(shop.lines, ['closing order 1002']);
  assert.ok(await isEmpty(client, 'order.close'));
});

test('the README: add a job', async () => {
  const add = program('add.mjs');
  assert.equal(await add.ended, 0, add.lines.join('\n'));
  assert.match(add.lines[0], / delayed 2/);
  assert.match(add.lines[2], /^invalid: delay is/);
  assert.equal(add.lines.length, 4);
  await client.empty('order.close');
});

test('the README: a worker', async () => {
  const answers = [202, 503, 200];
  const shop = await listen(http.createServer((request, response) => response.writeHead(answers.shift()).end()));
  const worker = program('worker.mjs', { SHOP: shop });
  await client.add({ topic: 'order.close', id: '7', retry: { attempts: 5, ladder: [1] }, body: { order: 7 } });
  const waits = await until('the shop is closed', async () => {
    const job = await client.get('order.close', '7');
    return job.last_error && job;
  });
  assert.equal(waits.last_error, 'the shop is closed');
  assert.ok(waits.due - Date.now() > 20_000);
  await client.run('order.close', '7');
  await until('it is done', () => isEmpty(client, 'order.close'));
  worker.child.kill('SIGTERM');
  assert.equal(await worker.ended, 0);
});

test('the README: errors', async () => {
  const errors = program('errors.mjs');
  assert.equal(await errors.ended, 0, errors.lines.join('\n'));
  assert.match(errors.lines[0], /done already/);
  assert.match(errors.lines[1], /^invalid 400 delay /);
});

for (const name of ['express.mjs', 'fastify.mjs', 'verify.mjs']) {
  test(`the README: ${name}`, async () => {
    const port = await freePort();
    const receiver = program(name, { PORT: String(port) });
    await until('it listens', () =>
      fetch(`http://127.0.0.1:${port}`).then(
        () => true,
        () => false,
      ),
    );
    await client.add({ topic: 'order.close', body: { order: 8 }, target: `http://127.0.0.1:${port}/hooks/linger` });
    await until('it was handled', () => receiver.said('closing order 8, lg_'));
    await until('it is done', () => isEmpty(client, 'order.close'));
    assert.equal((await fetch(`http://127.0.0.1:${port}/hooks/linger`, { method: 'POST', body: '{}' })).status, 401);
    receiver.child.kill();
    await receiver.ended;
  });
}

test('the README: service mode', async () => {
  const service = program('service.mjs');
  await client.add({ topic: 'order.close', body: { order: 9 }, target: 'worker:shop' });
  await until('it was handled', () => service.said('closing order 9, lg_'));
  await until('it is done', () => isEmpty(client, 'order.close'));
  service.child.kill('SIGTERM');
  assert.equal(await service.ended, 0);
  assert.deepEqual((await client.request('GET', '/v1/workers')).workers, []);
});

test('the example of payments goes as it should', async () => {
  const payment = run(process.execPath, [join(PACKAGE, 'examples/payment.mjs'), LINGER]);
  assert.equal(await payment.ended, 0, payment.lines.join('\n'));
  assert.ok(payment.said('2 answered again, 1 done, 0 failed'));
});

test(
  `a worker that is killed in the middle of ${JOBS} jobs, and started again, loses none`,
  { timeout: 60_000 },
  async () => {
    const file = join(folder(), 'done');
    writeFileSync(file, '');
    const done = () => readFileSync(file, 'utf8').split('\n').filter(Boolean);
    const start = () =>
      run(process.execPath, [join(PACKAGE, 'examples/worker.mjs'), 'killed', file], { LINGER_SERVER: server.url });
    const ids = Array.from({ length: JOBS }, (_, n) => String(n));
    const added = await client.addMany(ids.map((id) => ({ topic: 'killed', id, ttr: '2s' })));
    assert.ok(added.every(({ job }) => job));
    const first = start();
    await until('it is in the middle', () => done().length >= JOBS / 4);
    first.child.kill('SIGKILL');
    assert.equal(await first.ended, 'SIGKILL');
    assert.ok(done().length < JOBS, 'it was killed before it was done');
    assert.ok((await client.topic('killed')).counts.reserved > 0, 'it was killed while it worked');
    const second = start();
    await until('no job is left', () => isEmpty(client, 'killed'));
    second.child.kill('SIGTERM');
    assert.equal(await second.ended, 0, 'it stops in good order');
    assert.deepEqual([...new Set(done())].sort(), ids.sort());
  },
);

test('what is shipped is enough, for import and require', async () => {
  const path = folder();
  const npm = (...args) =>
    execFileSync('npm', args, { cwd: PACKAGE, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  const [{ filename, files }] = JSON.parse(npm('pack', '--json', '--pack-destination', path));
  mkdirSync(join(path, 'node_modules/linger-queue'), { recursive: true });
  execFileSync('tar', [
    'xzf',
    join(path, filename),
    '-C',
    join(path, 'node_modules/linger-queue'),
    '--strip-components=1',
  ]);
  const code =
    'new Client({ servers: process.env.LINGER_SERVER }).add({ topic: "shipped" }).then(({ topic }) => console.log(topic))';
  writeFileSync(join(path, 'a.mjs'), `import { Client } from 'linger-queue'; ${code}`);
  writeFileSync(join(path, 'a.cjs'), `const { Client } = require('linger-queue'); ${code}`);
  for (const name of ['a.mjs', 'a.cjs']) {
    const user = run(process.execPath, [join(path, name)], { LINGER_SERVER: server.url });
    assert.equal(await user.ended, 0, user.lines.join('\n'));
    assert.deepEqual(user.lines, ['shipped']);
  }
  assert.ok(
    files.every((file) => /^(lib\/|index\.|package\.json|README\.md)/.test(file.path)),
    JSON.stringify(files),
  );
});
