// Delivery and nodes.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { LOOK, LOOKS, go, open, picture, says, shut } from './browser.mjs';
import { Server, dead, freePort, receiver, until } from './server.mjs';

test('delivery shows destinations, workers and what failed last', async () => {
  const hooks = await receiver();
  const server = await Server.start();
  const page = await open(`${server.url}/#/delivery`);
  await says(page.locator('.empty'), 'No worker has registered');
  await says(page.locator('.empty'), 'Nothing was pushed yet');
  await server.add({ topic: 'good', target: `${hooks.url}/200`, retain: '1h' });
  await dead(server, hooks.url, 'bad', [{ id: 'b-1', says: '500/really' }]);
  await server.add(
    ...Array.from({ length: 10 }, () => ({ topic: 'nobody', target: 'http://127.0.0.1:9/hook' })),
  );
  await server.post('/v1/workers', {
    app: 'shop',
    topics: ['order.close'],
    url: `${hooks.url}/200`,
    lease: '10m',
  });
  const row = (text) => page.getByRole('row', { name: text });
  await says(row(new RegExp(`^${hooks.url}`)), 'open');
  await says(row(/^http:\/\/127\.0\.0\.1:9\b/), /closed/);
  await says(page.getByRole('row', { name: /^shop/ }), /live.*order\.close/s);
  const failures = page.getByRole('table', { name: 'Recent failures' });
  await says(failures.getByRole('row', { name: /b-1/ }), /bad.*500/s);
  await failures.getByRole('link', { name: 'b-1' }).first().click();
  await says(page.locator('h1'), 'b-1');
  await shut(page);
  await server.end();
  hooks.end();
});

test('a server with a folder is alone, and says so', async () => {
  const server = await Server.start({ settings: ['name=queue-1'] });
  const page = await open(`${server.url}/#/nodes`);
  await says(page.locator('.node'), /queue-1.*this one.*API.*timer.*worker/s);
  await says(page.locator('.empty'), 'No buckets');
  await shut(page);
  await server.end();
});

const hasRedis = (() => {
  try {
    return execFileSync('redis-server', ['--version']).length > 0;
  } catch {
    assert.ok(!process.env.CI, 'redis-server is not installed');
    return false;
  }
})();

test(
  'servers that share a store are all shown, with the map of their buckets',
  { skip: !hasRedis && 'redis-server is not installed (./test installs it)' },
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'linger-dashboard-redis-'));
    const port = await freePort();
    const redis = spawn(
      'redis-server',
      ['--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', folder],
      { stdio: 'ignore' },
    );
    t.after(() => {
      redis.kill();
      rmSync(folder, { recursive: true, force: true });
    });
    await until('Redis listens', () => canConnect(port));
    const store = `redis://127.0.0.1:${port}`;
    const first = await Server.start({ store, settings: ['name=queue-1', 'weight=3', 'group=eu'] });
    const second = await Server.start({ store, settings: ['name=queue-2', 'group=us'] });
    const page = await open(`${first.url}/#/nodes`);
    await says(page.locator('.node', { hasText: 'queue-1' }), /this one.*192/s);
    await says(page.locator('.node', { hasText: 'queue-2' }), '64');
    assert.equal(await page.locator('.map rect').count(), 256);
    const holders = () =>
      page.locator('.map rect').evaluateAll((all) => all.map((one) => one.getAttribute('class')));
    const ofSecond = await until('both have their cells', async () => {
      const cells = await holders();
      const few = cells.find((name) => cells.filter((other) => other === name).length === 64);
      return few && !cells.includes('nobody') && few;
    });
    await page.locator(`.map .${ofSecond}`).first().hover();
    await says(page.locator('.map-line'), 'held by queue-2');
    await picture(page, 'nodes-redis');
    const others = Object.keys(LOOKS).filter((look) => look !== 'phone-dark' && look !== LOOK);
    for (const look of LOOK === 'light' ? others : []) {
      const other = await open(`${first.url}/#/nodes`, look);
      await other.locator('.map rect').nth(255).waitFor();
      await picture(other, 'nodes-redis');
      await shut(other);
    }
    await go(page, 'Overview');
    await says(page.locator('.facts'), '2 servers alive');
    await shut(page);
    await second.end();
    await first.end();
  },
);

function canConnect(port) {
  return new Promise((resolve) => {
    const socket = net.connect(Number(port), '127.0.0.1');
    const end = (found) => {
      socket.destroy();
      resolve(found);
    };
    socket.on('connect', () => end(true)).on('error', () => end(false));
  });
}
