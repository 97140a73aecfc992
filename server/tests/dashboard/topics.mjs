// Topics: the table, and all that can be done to one of them.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { answer, button, dialog, open, picture, said, says, shut, tile, visit } from './browser.mjs';
import { Server, dead, receiver, until } from './server.mjs';

describe('topics', () => {
  let server;
  let hooks;
  let page;
  before(async () => {
    hooks = await receiver();
    server = await Server.start();
    await server.add(
      { topic: 'alpha', delay: '1h' },
      { topic: 'beta' },
      { topic: 'beta' },
      { topic: 'gamma.one', delay: '2h' },
      { topic: 'gamma.one', delay: '3h' },
    );
    page = await open(server.url);
  });
  after(async () => {
    await shut(page);
    await server.end();
    hooks.end();
  });

  const names = () => page.locator('tbody tr:not(.gap) td.name a').allInnerTexts();

  test('topics are sorted by what is clicked, and filtered by what is typed', async () => {
    await visit(page, `${server.url}/#/topics`);
    await page.getByRole('link', { name: 'alpha' }).waitFor();
    assert.deepEqual(await names(), ['alpha', 'beta', 'gamma.one']);
    await button(page, 'Delayed').click();
    await until('most delayed first', async () => (await names())[0] === 'gamma.one');
    assert.equal(
      await page.getByRole('columnheader', { name: 'Delayed' }).getAttribute('aria-sort'),
      'descending',
    );
    await button(page, 'Topic').click();
    await until('by name', async () => (await names()).join() === 'alpha,beta,gamma.one');
    await button(page, 'Topic').click();
    await until('by name, backwards', async () => (await names()).join() === 'gamma.one,beta,alpha');
    await page.getByLabel('Filter topics').fill('GAM');
    await until('only those that fit', async () => (await names()).join() === 'gamma.one');
    await says(page.locator('.head'), '1 of 3 topics');
  });

  test('the rates of a topic are in the table', async () => {
    await visit(page, `${server.url}/#/topics`);
    // On a phone a topic shows what it is sorted by, and else what is not 0.
    await button(page, 'In /s').click();
    const row = page.getByRole('row', { name: /alpha/ });
    const added = row.locator('td[data-label="In /s"]');
    await says(added, /^0$/);
    const jobs = Array.from({ length: 200 }, () => ({ topic: 'alpha', delay: '1h' }));
    await until('it is added to', async () => {
      await server.add(...jobs);
      return Number((await added.innerText()).replace(/[^\d.]/g, '')) > 1;
    });
  });

  test('a topic is paused and resumed', async () => {
    await visit(page, `${server.url}/#/topics/beta`);
    await button(page, 'Pause…').click();
    await picture(page, 'pause');
    await answer(page, 'Pause', { for: '10m' });
    await said(page, 'beta is paused.');
    await says(page.locator('.head .tag'), /^paused for [19]/);
    assert.equal((await server.topic('beta')).paused, true);
    await button(page, 'Resume').click();
    await button(page, 'Pause…').waitFor();
    assert.equal((await server.topic('beta')).paused, false);
  });

  test('settings are edited, and those that were not touched stay', async () => {
    const settings = {
      ttr: '45s',
      retry: { ladder: ['15s', '3m'] },
      headers: { 'x-shop': 'a: b' },
      rate: '10/m',
      retain: '7d',
      confirm: 'finish',
      target: `${hooks.url}/200`,
    };
    await server.put('/v1/topics/set.me', settings);
    const before = (await server.topic('set.me')).settings;
    await visit(page, `${server.url}/#/topics/set.me`);
    await says(page.locator('.facts'), '15s → 3m');
    await button(page, 'Edit settings').click();
    await picture(page, 'settings');
    await answer(page, 'Save', { concurrency: '7', ttr: '50s' });
    await said(page, 'saved');
    assert.deepEqual((await server.topic('set.me')).settings, { ...before, ttr: '50s', concurrency: 7 });
    await says(page.locator('.facts'), '50s');
    // Untouched but for the retries.
    await button(page, 'Edit settings').click();
    await dialog(page).locator('[name=retry_kind]').selectOption('backoff');
    await answer(page, 'Save', { retry_attempts: '5', retry_base: '2s', retry_max: '1m' });
    await until(
      'the retries are others',
      async () => (await server.topic('set.me')).settings.retry.attempts === 5,
    );
    const { retry, ...rest } = (await server.topic('set.me')).settings;
    assert.deepEqual(retry, { attempts: 5, backoff: { base: '2s', max: '1m', jitter: 0.2 } });
    const { retry: gone, ...restBefore } = before;
    assert.deepEqual(rest, { ...restBefore, ttr: '50s', concurrency: 7 });
  });

  test('settings that are refused stay in the dialog, with the reason', async () => {
    await visit(page, `${server.url}/#/topics/beta`);
    await button(page, 'Edit settings').click();
    await dialog(page).locator('[name=ttr]').fill('soon');
    await dialog(page).getByRole('button', { name: 'Save' }).click();
    await says(dialog(page).getByRole('alert'), 'ttr');
    await button(dialog(page), 'Cancel').click();
    assert.deepEqual((await server.topic('beta')).settings, {});
  });

  test('a topic is emptied, after it was said how many that is', async () => {
    await visit(page, `${server.url}/#/topics/gamma.one`);
    await button(page, 'Empty…').click();
    await says(dialog(page), /gamma\.one.*: 2 of them/);
    await button(dialog(page), 'Cancel').click();
    assert.equal((await server.counts('gamma.one')).delayed, 2);
    await button(page, 'Empty…').click();
    await answer(page, 'Remove 2 jobs');
    await said(page, '2 jobs of gamma.one are gone.');
    const { status } = await server.call('GET', '/v1/topics/gamma.one');
    assert.equal(status, 404);
    await says(page.locator('.empty'), 'There is no such topic');
  });

  test('dead jobs of a topic are told by error, and redriven', async () => {
    await dead(server, hooks.url, 'dies', [
      { id: '1', says: '418' },
      { id: '2', says: '418' },
      { id: '3', says: '503' },
    ]);
    await visit(page, `${server.url}/#/topics/dies`);
    await says(tile(page, 'Dead'), /^3$/);
    await says(page.locator('.errors li').first(), /418.*2/s);
    await server.post('/v1/topics/dies/pause');
    await page.locator('.errors li').first().getByRole('button', { name: 'Redrive' }).click();
    await answer(page, 'Redrive 2 jobs');
    await says(tile(page, 'Dead'), /^1$/);
    await button(page, 'Redrive dead…').click();
    await answer(page, 'Redrive 1 job');
    await says(tile(page, 'Dead'), /^0$/);
    await says(tile(page, 'Ready'), /^3$/);
  });

  test('a bar of a topic leads to the jobs that are due then', async () => {
    await server.add(
      { topic: 'bars', id: 'in-it', delay: '30m' },
      { topic: 'bars', id: 'later', delay: '50m' },
    );
    await visit(page, `${server.url}/#/topics/bars`);
    await page.locator('.bar rect').first().click();
    await page.getByRole('link', { name: 'in-it' }).waitFor();
    assert.deepEqual(await names(), ['in-it']);
  });
});
