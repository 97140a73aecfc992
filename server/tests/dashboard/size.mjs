// What the page weighs, and how soon it is there.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { open, says, shut, tile, visit } from './browser.mjs';
import { Server } from './server.mjs';

/** All of it, as it is served to one who takes no compression. */
const BYTES_MAX = 300_000;
/** What browsers call fast 3G has 1.6 Mbit/s and 150 ms; a phone on 4G is well above both. */
const SLOW = {
  offline: false,
  latency: 60,
  downloadThroughput: 9_000_000 / 8,
  uploadThroughput: 3_000_000 / 8,
};
const READY_MS = 1_000;
/** The machine that tests may be busy with others. */
const GENEROUS = 5;

test('the whole page weighs less than 300 kB', async () => {
  const server = await Server.start();
  const page = await open(null);
  const paths = new Set();
  page.on('request', (request) => paths.add(new URL(request.url()).pathname));
  for (const view of [
    '',
    'topics',
    'topics/x',
    'jobs',
    'jobs/x/y',
    'dead',
    'delivery',
    'events',
    'nodes',
    'keys',
    'add',
  ]) {
    await visit(page, `${server.url}/#/${view}`);
  }
  await shut(page);
  let bytes = 0;
  const files = [...paths].filter((path) => path === '/' || path.startsWith('/dashboard/'));
  for (const path of files) {
    const answer = await fetch(server.url + path, { headers: { 'accept-encoding': 'identity' } });
    assert.equal(answer.status, 200, path);
    bytes += (await answer.arrayBuffer()).byteLength;
  }
  console.log(`# ${files.length} files, ${bytes} bytes`);
  assert.ok(files.length > 20, files.join(' '));
  assert.ok(bytes < BYTES_MAX, `${bytes} bytes`);
  await server.end();
});

test('the page is ready soon on a slow connection', async () => {
  const server = await Server.start();
  await server.add({ topic: 'a', delay: '1h' });
  const page = await open(null);
  const session = await page.context().newCDPSession(page);
  await session.send('Network.enable');
  await session.send('Network.emulateNetworkConditions', SLOW);
  const begun = performance.now();
  await page.goto(server.url);
  await says(tile(page, 'Delayed'), /^1$/);
  const took = performance.now() - begun;
  console.log(`# ready with the first counts after ${Math.round(took)} ms at 9 Mbit/s and 60 ms`);
  assert.ok(took < READY_MS * GENEROUS, `${took} ms`);
  await shut(page);
  await server.end();
});
