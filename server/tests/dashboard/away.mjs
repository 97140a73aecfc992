// A server that goes away, and one that has very many topics.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { button, open, picture, says, shut, tile, visit } from './browser.mjs';
import { Server, freePort, until } from './server.mjs';

test('a server that goes away is told, and found again when it is back', async () => {
  const server = await Server.start({ listen: `127.0.0.1:${await freePort()}` });
  await server.add({ topic: 'a', delay: '1h' });
  const page = await open(server.url);
  await says(tile(page, 'Delayed'), /^1$/);
  const calls = [];
  await server.stop();
  const banner = page.locator('.banner');
  await says(banner, 'The server does not answer.');
  await says(page.locator('.status'), 'Away');
  await picture(page, 'away');
  // One who asks for all: nothing else is called while it is away.
  page.on('request', (request) => calls.push(new URL(request.url()).pathname));
  await until('it is asked for some times', () => calls.length >= 3);
  assert.deepEqual([...new Set(calls)], ['/readyz']);
  assert.equal(await tile(page, 'Delayed').innerText(), '1', 'what was seen stays');
  await server.run(server.url.replace('http://', ''));
  await server.add({ topic: 'a', delay: '1h' });
  await says(tile(page, 'Delayed'), /^2$/);
  assert.equal(await banner.count(), 0);
  await says(page.locator('.status'), 'Live');
  // Those who cannot wait need not.
  await server.stop();
  await banner.waitFor();
  // It would find the server by itself before it is told to.
  let may = false;
  await page.route('**/readyz', (route) => (may ? route.continue() : route.abort()));
  await server.run(server.url.replace('http://', ''));
  may = true;
  await button(page, 'Try now').evaluate((now) => now.click());
  await banner.waitFor({ state: 'detached' });
  await shut(page);
  await server.end();
});

test('an action that does not reach the server says so', async () => {
  const server = await Server.start();
  await server.add({ topic: 'a', id: '1', delay: '1h' });
  const page = await open(`${server.url}/#/jobs/a/1`);
  await button(page, 'Hold').waitFor();
  await page.context().setOffline(true);
  await button(page, 'Hold').click();
  await page.locator('.toast.bad').waitFor();
  await page.context().setOffline(false);
  await page.locator('.banner').waitFor({ state: 'detached' });
  await button(page, 'Hold').click();
  await says(page.locator('.head .badge'), 'Held');
  await shut(page);
  await server.end();
});

test('ten thousand topics are sorted, filtered and scrolled without ten thousand rows', async () => {
  const server = await Server.start({ settings: ['durability=relaxed'] });
  const name = (n) => `topic.${String(n).padStart(5, '0')}`;
  await server.add(...Array.from({ length: 10_000 }, (_, n) => ({ topic: name(n), delay: '30m' })));
  await server.add({ topic: name(7_777), delay: '30m' }, { topic: name(7_777), delay: '30m' });
  const page = await open(`${server.url}/#/topics`);
  await says(page.locator('.head'), '10,000 topics');
  const rows = page.locator('tbody tr:not(.gap)');
  assert.ok((await rows.count()) < 100);
  const timed = async (what, act, seen) => {
    const begun = performance.now();
    await act();
    await seen();
    console.log(`# ${what}: ${Math.round(performance.now() - begun)} ms`);
  };
  const first = (topic) => () =>
    until(`${topic} is first`, async () => (await rows.first().locator('a').innerText()) === topic);
  await timed('10,000 topics sorted', () => button(page, 'Delayed').click(), first(name(7_777)));
  await timed(
    '10,000 topics filtered',
    () => page.getByLabel('Filter topics').fill('09999'),
    first(name(9_999)),
  );
  await page.getByLabel('Filter topics').fill('');
  await button(page, 'Topic').click();
  await first(name(0))();
  await timed(
    '10,000 topics scrolled',
    () => page.evaluate(() => scrollTo(0, document.body.scrollHeight)),
    () => page.getByRole('link', { name: name(9_999) }).waitFor(),
  );
  assert.ok((await rows.count()) < 100);
  await picture(page, 'ten-thousand');
  await visit(page, server.url);
  await says(page.locator('.due-sum'), '10,002 jobs fall due in the coming');
  await shut(page);
  await server.end();
});
