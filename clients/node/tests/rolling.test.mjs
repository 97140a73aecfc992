// Two servers on one Redis, restarted one after the other, with a worker that goes on.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Worker } from 'linger-queue';
import { freePort, isEmpty, linger, run, until } from './harness.mjs';

test(
  'a worker keeps consuming through a rolling restart of two servers on one Redis',
  { timeout: 60_000 },
  async (t) => {
    const port = await freePort();
    const redis = run('redis-server', [
      '--port',
      String(port),
      '--bind',
      '127.0.0.1',
      '--save',
      '',
      '--appendonly',
      'no',
    ]);
    t.after(() => redis.child.kill('SIGKILL'));
    await until('Redis is ready', () => redis.said('Ready to accept connections'));
    const store = `redis://127.0.0.1:${port}`;
    const servers = [await linger({ store }), await linger({ store })];
    const client = new Client({ servers: servers.map(({ url }) => url) });

    const done = new Set();
    const worker = new Worker(client, {
      handlers: { rolling: (job) => void done.add(job.id) },
      onError: () => {},
    }).start();
    t.after(() => worker.stop());
    const added = new Set();
    let adding = true;
    const adder = (async () => {
      for (let n = 0; adding; n++) {
        // An add that says it failed may be there or not; one that is answered must be.
        await client.add({ topic: 'rolling', id: String(n), on_conflict: 'keep' }).then(
          ({ id }) => added.add(id),
          () => {},
        );
        await sleep(10);
      }
    })();

    for (const [index, server] of servers.entries()) {
      const before = done.size;
      await until('jobs are done with both', () => done.size >= before + 20);
      await server.stop();
      const without = done.size;
      await until('jobs are done with one', () => done.size >= without + 20);
      servers[index] = await linger({ store, port: server.port });
    }
    adding = false;
    await adder;
    await until('all that were added are done', () => [...added].every((id) => done.has(id)));
    await until('the topic is empty', () => isEmpty(client, 'rolling'));
    assert.ok(added.size >= 80);
    await worker.stop();
  },
);
