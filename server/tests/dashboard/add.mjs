// Adding a job by hand, and what is full of markup.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';

import { button, open, picture, said, says, shut, visit } from './browser.mjs';
import { Server, receiver, until } from './server.mjs';

describe('adding', () => {
  const run = promisify(execFile);

  let server;
  let page;
  before(async () => {
    server = await Server.start();
    page = await open(server.url);
  });
  after(async () => {
    await shut(page);
    await server.end();
  });

  async function fill(fields) {
    for (const [name, value] of Object.entries(fields)) await page.locator(`[name="${name}"]`).fill(value);
  }
  const withoutTimes = ({ status, id, number, created, due, ...job }) => job;

  test('a job is added by hand, and the command that is shown adds the same', async () => {
    await visit(page, `${server.url}/#/add`);
    await fill({ topic: "it's", id: 'one', delay: '2h', body: '{"order": 1001, "who": "O\'Hara"}' });
    await page.locator('summary', { hasText: 'Delivery' }).click();
    await fill({ ttr: '10s', priority: '7', retain: '1h', content_type: 'application/json' });
    await page.locator('[name=retry_kind]').selectOption('ladder');
    await fill({ retry_ladder: '15s 3m' });
    await page.locator('[name=repeat_kind]').selectOption('cron');
    await fill({ repeat_cron: '0 9 * * *', repeat_tz: 'Asia/Shanghai', repeat_count: '5' });
    await page.locator('[name=held]').check();
    await picture(page, 'add-filled');
    const command = await page.locator('.copyable pre').innerText();
    await button(page, 'Add job').click();
    await said(page, 'Job one is added.');
    const added = await server.job("it's", 'one');
    assert.deepEqual(added.retry.ladder, ['15s', '3m']);
    assert.equal(added.state, 'held');
    assert.deepEqual(added.body, { order: 1001, who: "O'Hara" });
    await run('sh', ['-c', command.replace('"id":"one"', '"id":"two"')]);
    assert.deepEqual(withoutTimes(await server.job("it's", 'two')), withoutTimes(added));
    await page.locator('.toast a').click();
    await says(page.locator('h1'), 'one');
  });

  test('what is wrong with a job is told, and nothing is added', async () => {
    await visit(page, `${server.url}/#/add`);
    await fill({ topic: 'wrong', body: '{"order": ' });
    await button(page, 'Add job').click();
    await says(page.getByRole('alert'), 'not JSON');
    await fill({ body: '1', delay: 'soon' });
    await button(page, 'Add job').click();
    await says(page.getByRole('alert'), 'delay');
    assert.equal((await server.call('GET', '/v1/topics/wrong')).status, 404);
  });

  test('the command is copied', async () => {
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await visit(page, `${server.url}/#/add?topic=copied`);
    const command = await page.locator('.copyable pre').innerText();
    assert.match(command, /^curl http.*"topic":"copied"/);
    await page.getByLabel('Copy the command').click();
    await until(
      'it is in the clipboard',
      async () => (await page.evaluate(() => navigator.clipboard.readText())) === command,
    );
  });

  test('markup in a topic, an id, a body, an error and an answer stays text', async () => {
    const evil = `</pre></script><script>alert(1)</script>"'\`&amp;<img src=x onerror=alert(2)>{count}`;
    const hooks = await receiver();
    const retry = { attempts: 1 };
    await server.add(
      { topic: 'plain', delay: '30m' },
      { topic: evil, id: evil, delay: '30m', body: { [evil]: [evil] } },
      { topic: evil, id: `${evil} text`, delay: '1h', body: evil },
      {
        topic: evil,
        id: `${evil} dead`,
        target: `${hooks.url}/418/${encodeURIComponent(evil)}`,
        retry,
        body: evil,
      },
      { topic: evil, id: `${evil} popped`, retry },
    );
    const path = `/v1/topics/${encodeURIComponent(evil)}`;
    const { jobs } = await server.post(`${path}/pop`);
    await server.post(`${path}/jobs/${encodeURIComponent(jobs[0].id)}/fail`, { error: evil });
    await until('two are dead', async () => (await server.counts(evil)).dead === 2);
    await server.put(path, { headers: { 'x-evil': '<script>alert(3)</script>' } });
    await server.post('/v1/workers', {
      app: '<script>alert(4)</script>'.replace('/', '∕'),
      topics: [evil],
      url: `${hooks.url}/200`,
    });
    const topic = encodeURIComponent(evil);
    const views = [
      ['overview', '', evil],
      ['topics', 'topics', evil],
      ['topic', `topics/${topic}`, evil],
      ['jobs', `jobs?topic=${topic}`, `${evil} text`],
      ['job', `jobs/${topic}/${topic}`, evil],
      ['dead-job', `jobs/${topic}/${topic}%20dead`, `${evil} dead`],
      ['popped-job', `jobs/${topic}/${topic}%20popped`, evil],
      ['dead', 'dead', evil],
      ['delivery', 'delivery', '<script>alert(4)'],
      ['events', 'events', evil],
      ['add', `add?topic=${topic}&clone=${topic}`, evil],
    ];
    for (const [name, view, text] of views) {
      await visit(page, `${server.url}/#/${view}`);
      await page.locator('main').getByText(text).first().waitFor();
      const bred = await page.evaluate(
        () => document.querySelectorAll('#app script, #app img:not(.brand img), [onerror], iframe').length,
      );
      assert.equal(bred, 0, name);
      await picture(page, `markup-${name}`);
    }
    // In a question, and in the finder.
    await visit(page, `${server.url}/#/topics/${topic}`);
    await button(page, 'Empty…').click();
    await says(page.locator('dialog'), evil);
    await page.keyboard.press('Escape');
    await page.locator('#find').fill(evil);
    await page.locator('.found [role=option]').first().waitFor();
    assert.deepEqual(page.troubles, []);
    hooks.end();
  });
});
