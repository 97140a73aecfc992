// A server that asks for keys, and what each of them is shown.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import {
  answer,
  button,
  dialog,
  faults,
  go,
  menu,
  open,
  picture,
  said,
  says,
  shut,
  visit,
} from './browser.mjs';
import { Server, dead, receiver, until } from './server.mjs';

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
  const at = async (page, hash, head) => {
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
    await says(page.locator('.tile', { hasText: 'Delayed' }), '2');
    await menu(page);
    await says(page.locator('.who'), 'Signed in as read');
    for (const name of ['Add a job', 'Keys'])
      assert.equal(await page.getByRole('link', { name, exact: true }).count(), 0);
    for (const [hash, head, shown] of VIEWS) {
      await at(page, hash, head);
      await says(page.locator('main'), shown);
      const changes = (await offered(page)).filter((text) => CHANGES.test(text));
      assert.deepEqual(changes, [], hash);
    }
    await at(page, '#/add', 'Add a job');
    await says(page.locator('main'), 'This key may not add jobs');
    assert.equal(await page.locator('form').count(), 0);
    await at(page, '#/keys', 'Keys');
    await says(page.locator('main'), 'This key may not look at keys');
    await menu(page);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await says(dialog(page), 'API key');
    await shut(page);
  });

  test('a key that may do anything is offered all of it', async () => {
    const page = await signedIn(ADMIN);
    await menu(page);
    await says(page.locator('.who'), 'Signed in as bootstrap');
    await at(page, '#/topics/order.close', 'order.close');
    await page.getByRole('button', { name: 'Pause' }).waitFor();
    await page.getByRole('button', { name: 'Edit' }).first().waitFor();
    await at(page, '#/jobs/order.close/1001', '1001');
    await page.getByRole('button', { name: 'Hold' }).waitFor();
    await shut(page);
  });

  test('a key for some topics is shown those, and may change them if it says so', async () => {
    const page = await signedIn(await made(['read', 'add'], ['order.*']));
    await at(page, '#/topics', 'Topics');
    await says(page.locator('main'), 'order.close');
    assert.ok(!(await page.locator('main').innerText()).includes('mail'));
    await at(page, '#/jobs/order.close/1001', '1001');
    await page.getByRole('button', { name: 'Hold' }).click();
    await page.getByRole('button', { name: 'Let go' }).waitFor();
    await at(page, '#/topics/order.close', 'order.close');
    await says(page.locator('main'), 'Held');
    assert.equal(await page.getByRole('button', { name: 'Pause' }).count(), 0);
    await shut(page);
  });

  const call = (key, method, path) =>
    fetch(server.url + path, { method, headers: { authorization: `Bearer ${key}` } });
  const row = (page, name) => page.getByRole('table', { name: 'Keys' }).getByRole('row', { name });

  test('a key is made, shown this once, and revoked after a question; each is on record', async () => {
    const evil = '<img src=x onerror=alert(1)>';
    await server.post('/v1/keys', { name: evil, scopes: ['metrics'] });
    const page = await signedIn(ADMIN);
    await go(page, 'Keys');
    await button(page, 'Make a key…').click();
    await dialog(page).locator('[name=name]').fill('shop');
    await button(dialog(page), 'Make key').click();
    await says(dialog(page).getByRole('alert'), 'Choose at least one scope.');
    await dialog(page).locator('[name=scope_add]').check();
    await dialog(page).locator('[name=scope_read]').check();
    await dialog(page).locator('[name=topics]').fill('order.*\n mail ');
    await dialog(page).locator('[name=expires_in]').fill('90d');
    await dialog(page).locator('[name=rate]').fill('600/m');
    await picture(page, 'key-question');
    assert.deepEqual(await faults(page), []);
    await button(dialog(page), 'Make key').click();
    await says(dialog(page), 'The key shop is made');
    const key = await dialog(page).locator('pre').innerText();
    await picture(page, 'key-made');
    await button(dialog(page), 'Close').click();
    await until('it is not shown again', async () => !(await page.content()).includes(key));
    const { keys } = await server.get('/v1/keys');
    const { id, scopes, topics, rate } = keys.find(({ name }) => name === 'shop');
    assert.deepEqual([scopes, topics, rate], [['add', 'read'], ['order.*', 'mail'], '600/1m']);
    assert.equal((await call(key, 'GET', '/v1/topics/order.close')).status, 200);
    await row(page, 'shop').waitFor();
    await says(row(page, 'shop'), /add.*read.*order\.\*, mail/s);
    await says(row(page, evil), 'metrics');
    assert.equal(await page.locator('main img').count(), 0);
    assert.deepEqual(await faults(page), []);
    await picture(page, 'keys-listed');

    await button(page, 'Revoke shop').click();
    await says(dialog(page), /shop is refused from now on/);
    await picture(page, 'key-revoke');
    await page.keyboard.press('Escape');
    await dialog(page).waitFor({ state: 'detached' });
    assert.equal((await call(key, 'GET', '/v1/topics/order.close')).status, 200);
    await button(page, 'Revoke shop').click();
    await answer(page, 'Revoke key');
    await said(page, 'The key shop is revoked.');
    await row(page, 'shop').waitFor({ state: 'detached' });
    assert.equal((await call(key, 'GET', '/v1/topics/order.close')).status, 401);

    const record = page.getByRole('table', { name: 'Changes' });
    const changes = record.locator('tbody tr:not(.gap)');
    await says(changes.first(), new RegExp(`DELETE /v1/keys/${id}.*shop.*bootstrap`, 's'));
    await says(changes.nth(1), /POST \/v1\/keys.*shop.*bootstrap/s);
    for (let n = 0; n < 20; n += 1) await server.post('/v1/topics/order.close/pause');
    const shown = async () => Number(await record.getAttribute('aria-rowcount')) - 1;
    await until('only the last are shown', async () => (await shown()) === 20);
    await button(page, 'Older ones').click();
    await until('all of them are', async () => (await shown()) > 20);
    await shut(page);
  });

  test('the first key is made by one whom nobody asks for any, and the page goes on with it', async () => {
    const own = await Server.start();
    const page = await open(`${own.url}/#/keys`);
    await says(page.locator('.note'), 'asks for no key');
    await picture(page, 'keys-none');
    await button(page, 'Make the first key…').click();
    await dialog(page).locator('[name=name]').fill('root');
    await button(dialog(page), 'Make key').click();
    await says(dialog(page), 'You are signed in with it');
    own.key = await dialog(page).locator('pre').innerText();
    await button(dialog(page), 'Close').click();
    await says(row(page, 'root'), 'yours');
    assert.equal(await page.locator('.note').count(), 0);
    assert.equal((await fetch(`${own.url}/v1/stats`)).status, 401);
    // The last one of all: nobody is asked for any again, and there is nothing to sign in to.
    await button(page, 'Revoke root').click();
    await says(dialog(page), 'You are signed in with this key.');
    await answer(page, 'Revoke key');
    await says(page.locator('.note'), 'asks for no key');
    await until('nobody is asked', async () => (await dialog(page).count()) === 0);
    assert.equal((await fetch(`${own.url}/v1/stats`)).status, 200);
    await shut(page);
    await own.end();
  });

  test('who revokes the key of this tab is asked for another', async () => {
    const page = await signedIn(await made(['admin']));
    await go(page, 'Keys');
    await button(page, 'Revoke admin').click();
    await dialog(page).getByRole('button', { name: 'Revoke key' }).click();
    await says(dialog(page), 'This server asks for an API key.');
    await dialog(page).getByLabel('API key').fill(ADMIN);
    await dialog(page).getByRole('button', { name: 'Sign in' }).click();
    await menu(page);
    await says(page.locator('.who'), 'Signed in as bootstrap');
    await shut(page);
  });
});
