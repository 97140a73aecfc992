// The dead shelf, and redriving at a rate.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { answer, button, dialog, go, open, picture, said, says, shut, visit } from './browser.mjs';
import { Server, dead, receiver, until } from './server.mjs';

describe('the dead shelf', () => {
  let server;
  let hooks;
  let page;
  before(async () => {
    hooks = await receiver();
    server = await Server.start();
    page = await open(server.url);
  });
  after(async () => {
    await shut(page);
    await server.end();
    hooks.end();
  });

  const many = (count, says) => Array.from({ length: count }, (_, at) => ({ id: `${says}-${at}`, says }));
  const group = (topic) => page.locator('.group', { hasText: topic });
  const error = (topic, text) => group(topic).locator('.errors li', { hasText: text });

  test('an empty shelf says what it is for', async () => {
    const own = await Server.start();
    await visit(page, `${own.url}/#/dead`);
    await says(page.locator('.empty'), 'The shelf is empty');
    await picture(page, 'dead-empty');
    await visit(page, server.url);
    await own.end();
  });

  test('dead jobs are grouped by topic and error, the most first', async () => {
    await dead(server, hooks.url, 'few', many(2, '410'));
    await dead(server, hooks.url, 'most', [...many(5, '418'), ...many(3, '410')]);
    await visit(page, `${server.url}/#/dead`);
    await says(error('most', '418'), '5');
    await says(error('most', '410'), '3');
    await says(error('few', '410'), '2');
    assert.deepEqual(await page.locator('.group-name').allInnerTexts(), ['most', 'few']);
    await says(page.locator('.head'), '10 jobs');
    assert.equal(await page.locator('.menu-count').innerText(), '10');
    await error('most', '410').getByRole('link').click();
    await until('those of the error are shown', async () => (await page.locator('td.name a').count()) === 3);
  });

  test('a group is redriven at once', async () => {
    await dead(server, hooks.url, 'once', [...many(2, '418'), ...many(3, '410')]);
    await server.post('/v1/topics/once/pause');
    await visit(page, `${server.url}/#/dead`);
    await error('once', '410').getByRole('button').click();
    await says(dialog(page), /once.*: 3\./);
    await picture(page, 'redrive-question');
    await answer(page, 'Redrive 3 jobs');
    await said(page, '3 dead jobs of once are on their way again.');
    const counts = await server.counts('once');
    assert.deepEqual([counts.dead, counts.ready], [2, 3]);
  });

  test('a group is redriven at a rate, slice by slice, while one looks elsewhere', async () => {
    await dead(server, hooks.url, 'bit.by.bit', many(5, '418'));
    await server.post('/v1/topics/bit.by.bit/pause');
    await visit(page, `${server.url}/#/dead`);
    await error('bit.by.bit', '418').getByRole('button').click();
    await answer(page, 'Redrive 5 jobs', { rate: '2' });
    const task = page.locator('.task');
    await says(task, 'Keep this page open.');
    await go(page, 'Overview');
    await says(task, '4 of 5');
    await said(page, '5 dead jobs of bit.by.bit are on their way again.');
    assert.equal((await server.counts('bit.by.bit')).dead, 0);
    await task.waitFor({ state: 'detached' });
  });

  test('a redrive is stopped, and what was not done stays dead', async () => {
    await dead(server, hooks.url, 'stopped', many(30, '418'));
    await server.post('/v1/topics/stopped/pause');
    await visit(page, `${server.url}/#/dead`);
    await error('stopped', '418').getByRole('button').click();
    await answer(page, 'Redrive 30 jobs', { rate: '1' });
    await says(page.locator('.task'), '1 of 30');
    await picture(page, 'redrive');
    await button(page, 'Stop').click();
    await page.locator('.task').waitFor({ state: 'detached' });
    const { dead: left, ready } = await server.counts('stopped');
    assert.ok(left > 0 && ready > 0 && left + ready === 30, `${left} dead, ${ready} ready`);
    await said(page, 'of stopped');
  });
});
