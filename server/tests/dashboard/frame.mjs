// What is around the views: keys, finder, colours, language, sign-in, and what the server sends.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { LOOK, button, dialog, menu, open, picture, says, shut, visit } from './browser.mjs';
import { Server, until } from './server.mjs';

describe('the frame', () => {
  const isPhone = LOOK.startsWith('phone');

  let server;
  before(async () => {
    server = await Server.start();
    await server.add(
      { topic: 'order.close', id: '1001', delay: '1h' },
      { topic: 'order.remind', id: '1001', delay: '1h' },
      { topic: 'order.remind', id: 'only', delay: '1h' },
    );
  });
  after(() => server.end());

  test('keys lead to the views, and to the help', async () => {
    const page = await open(server.url);
    for (const [key, title] of [
      ['t', 'Topics'],
      ['j', 'Jobs'],
      ['d', 'Dead shelf'],
      ['p', 'Delivery'],
      ['e', 'Events'],
      ['n', 'Nodes'],
      ['k', 'Keys'],
      ['a', 'Add a job'],
      ['o', 'Overview'],
    ]) {
      await page.keyboard.press('g');
      await page.keyboard.press(key);
      await page.getByRole('heading', { level: 1, name: title, exact: true }).waitFor();
      assert.equal(await page.title(), `${title} · Linger`);
    }
    await page.keyboard.press('?');
    await says(dialog(page), 'Find a job or a topic');
    await picture(page, 'help');
    await page.keyboard.press('Escape');
    await dialog(page).waitFor({ state: 'detached' });
    await shut(page);
  });

  test('a job is found by its id from anywhere', async () => {
    const page = await open(`${server.url}/#/nodes`);
    await page.keyboard.press('/');
    await page.keyboard.type('only');
    await page.keyboard.press('Enter');
    await says(page.locator('h1'), 'only');
    // In several topics: chosen with the arrows.
    await page.keyboard.press('/');
    await page.keyboard.type('1001');
    const options = page.getByRole('option');
    await until('both are found', async () => (await options.count()) === 2);
    await picture(page, 'find');
    const second = await options.nth(1).innerText();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await says(page.locator('h1'), '1001');
    await says(page.locator('.crumbs'), second.includes('order.remind') ? 'order.remind' : 'order.close');
    // Topics by how they begin.
    await page.keyboard.press('/');
    await page.keyboard.type('order.');
    await until('both topics are found', async () => (await options.count()) === 2);
    await options.filter({ hasText: 'order.remind' }).click();
    await says(page.locator('h1'), 'order.remind');
    await page.keyboard.press('/');
    await page.keyboard.type('nowhere');
    await says(page.locator('.found'), 'No job has the id “nowhere”');
    await page.keyboard.press('Escape');
    await until('nothing is open', async () => !(await page.locator('.found').last().isVisible()));
    await shut(page);
  });

  test(
    'everything can be reached by the keyboard alone',
    { skip: isPhone && 'a phone has none' },
    async () => {
      const page = await open(`${server.url}/#/topics`);
      await page.getByRole('link', { name: 'order.close' }).waitFor();
      const seen = new Set();
      for (let n = 0; n < 60; n += 1) {
        await page.keyboard.press('Tab');
        seen.add(
          await page.evaluate(
            () => document.activeElement.textContent || document.activeElement.getAttribute('aria-label'),
          ),
        );
      }
      for (const text of [
        'Skip to the content',
        'Find a job by its id, or a topic by how it begins',
        'Topics',
        'Delayed',
        'order.close',
        'Filter topics',
      ]) {
        assert.ok(seen.has(text), `${text} is not reached: ${[...seen]}`);
      }
      await shut(page);
    },
  );

  test('the colours follow the system until one chooses, and are kept', async () => {
    const page = await open(server.url, LOOK, { colorScheme: 'dark' });
    const background = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const dark = await background();
    await menu(page);
    await button(page, 'System').click();
    await until('it is light', async () => (await background()) !== dark);
    const light = await background();
    await page.reload();
    await page.locator('h1').waitFor();
    assert.equal(await background(), light);
    await menu(page);
    await button(page, 'Light').click();
    await until('it is dark', async () => (await background()) === dark);
    await shut(page);
  });

  test('the language is the browser’s until one chooses, and is kept', async () => {
    const page = await open(server.url, LOOK, { locale: 'zh-CN' });
    await says(page.locator('h1'), '概览');
    assert.equal(await page.evaluate(() => document.documentElement.lang), 'zh-CN');
    await menu(page);
    await button(page, 'English').click();
    await says(page.locator('h1'), 'Overview');
    await page.reload();
    await says(page.locator('h1'), 'Overview');
    await menu(page);
    await button(page, '简体中文').click();
    await says(page.locator('h1'), '概览');
    await shut(page);
    const other = await open(server.url, LOOK, { locale: 'fr-FR' });
    await says(other.locator('h1'), 'Overview');
    await shut(other);
  });

  test('a server that asks for a key is given one, for this tab', async () => {
    const page = await open(null);
    // Played: keys.mjs has a real one.
    let given;
    await page.route('**/v1/**', async (route) => {
      given = route.request().headers().authorization;
      if (given === 'Bearer secret') return route.continue();
      return route.fulfill({
        status: 401,
        json: { error: { code: 'unauthorized', message: 'who are you?' } },
      });
    });
    await visit(page, server.url);
    await says(dialog(page), 'API key');
    await picture(page, 'sign-in');
    await dialog(page).getByLabel('API key').fill('secret');
    await dialog(page).getByRole('button', { name: 'Sign in' }).click();
    await says(page.locator('.tile', { hasText: 'Delayed' }), '3');
    assert.equal(await page.evaluate(() => sessionStorage.getItem('linger.key')), 'secret');
    await shut(page);
  });

  test('the menu of a phone opens and closes', async () => {
    const page = await open(server.url, isPhone ? LOOK : 'phone');
    const link = page.getByRole('link', { name: 'Dead shelf' });
    assert.equal(await link.isVisible(), false);
    await button(page, 'Menu').click();
    await link.waitFor();
    await picture(page, 'menu');
    await link.click();
    await says(page.locator('h1'), 'Dead shelf');
    await link.waitFor({ state: 'hidden' });
    await shut(page);
  });

  test('the page lets nothing in from elsewhere', async () => {
    const answer = await fetch(server.url);
    const policy = answer.headers.get('content-security-policy');
    assert.match(policy, /default-src 'none'; script-src 'self'; style-src 'self';/);
    assert.ok(!policy.includes('unsafe'), policy);
    const page = await open(server.url);
    const refused = page.evaluate(
      () =>
        new Promise((resolve) => {
          document.addEventListener('securitypolicyviolation', (event) => resolve(event.violatedDirective));
          document.body.append(
            Object.assign(document.createElement('script'), { textContent: 'self.wrong = 1' }),
          );
        }),
    );
    assert.equal(await refused, 'script-src-elem');
    assert.equal(await page.evaluate(() => self.wrong), undefined);
    await page.context().close();
    const foreign = await fetch(`${server.url}/v1/jobs`, {
      method: 'POST',
      headers: { origin: 'https://evil.example' },
      body: '{}',
    });
    assert.equal(foreign.status, 403);
  });
});
