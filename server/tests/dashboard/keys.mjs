// A server that asks for keys, and what each of them is shown.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { dialog, open, says, shut, visit } from './browser.mjs';
import { Server, dead, receiver } from './server.mjs';

const ADMIN = 'a-key-that-may-do-anything';

describe('keys', () => {
  let server, other;
  before(async () => {
    server = await Server.start({ settings: [`bootstrap_key=${ADMIN}`] });
    server.key = ADMIN;
    other = await receiver();
    await server.add({ topic: 'order.close', id: '1001', delay: '1h', body: { order: 1001 } });
    await server.add({ topic: 'mail', id: '1', delay: '1h' });
    await dead(server, other.url, 'order.close', [{ id: 'bad', says: '500' }]);
  });
  after(async () => {
    await server.end();
    other.end();
  });

  const made = async (scopes, topics = ['*']) =>
    (await server.post('/v1/keys', { name: scopes.join('-'), scopes, topics })).key;

  const signedIn = async (key) => {
    const page = await open(null);
    await visit(page, server.url);
    await dialog(page).getByLabel('API key').fill(key);
    await dialog(page).getByRole('button', { name: 'Sign in' }).click();
    return page;
  };
  const go = async (page, hash, head) => {
    await page.evaluate((hash) => (location.hash = hash), hash);
    await says(page.locator('h1'), head);
  };
  /** What can be pressed in the view. */
  const offered = (page) =>
    page
      .locator('main')
      .locator('button, input[type=checkbox], a.button')
      .evaluateAll((all) => all.map((one) => one.textContent || one.ariaLabel));

  const VIEWS = [
    ['#/topics/order.close', 'order.close', 'Delayed'],
    ['#/jobs?topic=order.close', 'Jobs', '1001'],
    ['#/jobs/order.close/1001', '1001', 'Delayed'],
    ['#/jobs/order.close/bad', 'bad', 'Dead'],
    ['#/dead', 'Dead shelf', 'order.close'],
  ];
  const CHANGES = /pause|resume|redrive|empty|edit|hold|run|delete|cancel|resched|choose|add|another/i;

  test('a key that may only look is offered nothing to press, and sees what it is for', async () => {
    const page = await signedIn(await made(['read']));
    await says(page.locator('.who'), 'Signed in as read');
    await says(page.locator('.tile', { hasText: 'Delayed' }), '2');
    assert.equal(await page.getByRole('link', { name: 'Add a job' }).count(), 0);
    for (const [hash, head, shown] of VIEWS) {
      await go(page, hash, head);
      await says(page.locator('main'), shown);
      const changes = (await offered(page)).filter((text) => CHANGES.test(text));
      assert.deepEqual(changes, [], hash);
    }
    await go(page, '#/add', 'Add a job');
    await says(page.locator('main'), 'This key may not add jobs');
    assert.equal(await page.locator('form').count(), 0);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await says(dialog(page), 'API key');
    await shut(page);
  });

  test('a key that may do anything is offered all of it', async () => {
    const page = await signedIn(ADMIN);
    await says(page.locator('.who'), 'Signed in as bootstrap');
    await go(page, '#/topics/order.close', 'order.close');
    await page.getByRole('button', { name: 'Pause' }).waitFor();
    await page.getByRole('button', { name: 'Edit' }).first().waitFor();
    await go(page, '#/jobs/order.close/1001', '1001');
    await page.getByRole('button', { name: 'Hold' }).waitFor();
    await shut(page);
  });

  test('a key for some topics is shown those, and may change them if it says so', async () => {
    const page = await signedIn(await made(['read', 'add'], ['order.*']));
    await go(page, '#/topics', 'Topics');
    await says(page.locator('main'), 'order.close');
    assert.ok(!(await page.locator('main').innerText()).includes('mail'));
    await go(page, '#/jobs/order.close/1001', '1001');
    await page.getByRole('button', { name: 'Hold' }).click();
    await page.getByRole('button', { name: 'Let go' }).waitFor();
    await go(page, '#/topics/order.close', 'order.close');
    await says(page.locator('main'), 'Held');
    assert.equal(await page.getByRole('button', { name: 'Pause' }).count(), 0);
    await shut(page);
  });
});
