// Jobs of a topic: found, chosen, and put right many at a time.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { answer, button, dialog, open, picture, said, says, shut, visit } from './browser.mjs';
import { Server, dead, receiver, until } from './server.mjs';

describe('jobs', () => {
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

  /** A topic of its own with so many jobs that are due in an hour and later. */
  async function filled(topic, count, more = {}) {
    await server.add(
      ...Array.from({ length: count }, (_, at) => ({
        topic,
        id: `job-${at}`,
        delay: `${3600 + at}s`,
        body: { at },
        ...more,
      })),
    );
    await visit(page, `${server.url}/#/jobs?topic=${topic}`);
    await page.getByRole('link', { name: 'job-0', exact: true }).waitFor();
  }
  const ids = () => page.locator('tbody tr:not(.gap) td.name a').allInnerTexts();
  const choose = async (...names) => {
    for (const name of names) await page.getByLabel(`Select job ${name}`, { exact: true }).check();
  };
  /** On a phone some filters are shown on demand. */
  const unfolded = async () => {
    const more = page.locator('.unfold[aria-expanded=false]');
    if (await more.isVisible()) await more.click();
  };
  const bar = () => page.getByRole('toolbar');

  test('without a topic one is chosen from those that have jobs', async () => {
    await server.add(
      { topic: 'one', delay: '1h' },
      { topic: 'two', id: 'x', delay: '1h' },
      { topic: 'two', delay: '1h' },
    );
    await visit(page, `${server.url}/#/jobs`);
    await page.getByRole('link', { name: /two\s*2 jobs/ }).click();
    await page.getByRole('link', { name: 'x', exact: true }).waitFor();
  });

  test('jobs are filtered by state, beginning of the id, due time and error', async () => {
    await dead(server, hooks.url, 'filter', [
      { id: 'dead-1', says: '418' },
      { id: 'dead-2', says: '410' },
    ]);
    await filled('filter', 5);
    await page.getByLabel('State').selectOption('dead');
    await until('the dead', async () => (await ids()).sort().join() === 'dead-1,dead-2');
    const { last_error: error } = await server.job('filter', 'dead-2');
    await unfolded();
    await page.getByLabel('Last error is exactly').fill(error);
    await page.keyboard.press('Enter');
    await until('those with the error', async () => (await ids()).join() === 'dead-2');
    assert.match(page.url(), /state=dead.*error=/);
    await button(page, 'Clear filters').click();
    await page.getByLabel('Id begins with').fill('job-');
    await page.keyboard.press('Enter');
    await until('those whose id begins so', async () => (await ids()).length === 5);
    // In the browser's time zone, by the minute.
    const due = Date.parse((await server.job('filter', 'job-2')).due);
    const local = (ms) =>
      new Intl.DateTimeFormat('sv', { timeZone: 'Europe/Berlin', dateStyle: 'short', timeStyle: 'medium' })
        .format(ms)
        .replace(' ', 'T');
    await unfolded();
    await page.getByLabel('Due before').fill(local(due));
    await page.keyboard.press('Tab');
    await until('those due before', async () =>
      (await ids()).every((id) => ['job-0', 'job-1', 'job-2'].includes(id)),
    );
    await page.getByLabel('Id begins with').fill('nothing');
    await page.keyboard.press('Tab');
    await says(page.locator('.empty'), 'No job matches these filters');
    await picture(page, 'filtered');
  });

  test('a rare job among very many is found, by as many calls as it takes', async () => {
    await server.add(
      ...Array.from({ length: 20_500 }, (_, at) => ({ topic: 'rare', id: `common-${at}`, delay: '1h' })),
      { topic: 'rare', id: 'needle', delay: '2h' },
    );
    const calls = [];
    page.on('response', (answer) => answer.url().includes('id_prefix') && calls.push(answer.url()));
    await visit(page, `${server.url}/#/jobs?topic=rare&id_prefix=needle`);
    await until('it is found', async () => (await ids()).join() === 'needle');
    assert.equal(calls.length, 3, calls.join('\n'));
    await visit(page, `${server.url}/#/jobs?topic=rare&id_prefix=nothing`);
    await says(page.locator('.empty'), 'No job matches these filters');
  });

  test('chosen jobs are run', async () => {
    await filled('run', 4);
    await choose('job-1', 'job-3');
    await says(bar(), '2 selected');
    await picture(page, 'bulk');
    await button(bar(), 'Run now').click();
    await says(dialog(page), /2 of topic run/);
    await picture(page, 'bulk-question');
    assert.equal((await server.counts('run')).ready, 0, 'nothing is done before it was confirmed');
    await answer(page, 'Run 2 jobs now');
    await said(page, 'Run now: done for 2 jobs.');
    assert.equal((await server.counts('run')).ready, 2);
    assert.equal((await server.job('run', 'job-3')).state, 'ready');
  });

  test('chosen jobs are held and let go', async () => {
    await filled('hold', 3);
    await page.getByLabel('Select all that are shown').check();
    await button(bar(), 'Hold').click();
    await answer(page, 'Hold 3 jobs');
    await until('all are held', async () => (await server.counts('hold')).held === 3);
    await choose('job-0');
    await button(bar(), 'Let go').click();
    await answer(page, 'Let 1 job go');
    await until('one is not', async () => (await server.counts('hold')).held === 2);
  });

  test('chosen jobs are deleted, if one means it', async () => {
    await filled('delete', 3);
    await choose('job-0', 'job-1');
    await button(bar(), 'Delete').click();
    await says(dialog(page), 'cannot be undone');
    await page.keyboard.press('Escape');
    await dialog(page).waitFor({ state: 'detached' });
    assert.equal((await server.counts('delete')).delayed, 3);
    await button(bar(), 'Delete').click();
    await answer(page, 'Delete 2 jobs');
    await until('one is left', async () => (await server.counts('delete')).delayed === 1);
    await until('it is the one shown', async () => (await ids()).join() === 'job-2');
  });

  test('chosen jobs are rescheduled one by one', async () => {
    await filled('later', 10);
    await page.getByLabel('Select all that are shown').check();
    await button(bar(), 'Reschedule').click();
    await answer(page, 'Reschedule 10 jobs', { delay: '7d' });
    await said(page, 'Reschedule: done for 10 jobs.');
    await picture(page, 'said');
    const { jobs } = await server.get('/v1/topics/later/jobs');
    assert.ok(jobs.every(({ due }) => Date.parse(due) > Date.now() + 6 * 86_400_000));
  });

  test('dead jobs are redriven', async () => {
    await dead(server, hooks.url, 'again', [
      { id: 'a', says: '418' },
      { id: 'b', says: '418' },
    ]);
    await server.post('/v1/topics/again/pause');
    await visit(page, `${server.url}/#/jobs?topic=again`);
    await page.getByLabel('Select job a').check();
    await button(bar(), 'Redrive').click();
    await answer(page, 'Redrive 1 job');
    await until('one is ready', async () => (await server.counts('again')).ready === 1);
  });

  test('all that match are counted first, and changed with those out of sight', async () => {
    await filled('many', 250);
    await server.add({ topic: 'many', id: 'other', delay: '1h' });
    await page.getByLabel('Id begins with').fill('job-');
    await page.keyboard.press('Enter');
    await button(page, 'Select all that match').click();
    await says(bar(), 'All that match');
    await button(bar(), 'Hold').click();
    await says(dialog(page), /250 that match/);
    await answer(page, 'Hold 250 jobs');
    await until('250 are held', async () => (await server.counts('many')).held === 250);
    await button(page, 'Select all that match').click();
    await button(bar(), 'Reschedule').click();
    await answer(page, 'Reschedule 250 jobs', { at: '2099-01-01T12:00:00' });
    await said(page, 'Reschedule: done for 250 jobs.');
    assert.equal((await server.job('many', 'job-249')).due, '2099-01-01T11:00:00.000Z');
    await button(page, 'Select all that match').click();
    await button(bar(), 'Delete').click();
    await answer(page, 'Delete 250 jobs');
    await until('the other one is left', async () => (await server.counts('many')).held === 0);
    assert.equal((await server.job('many', 'other')).state, 'delayed');
  });

  test('what is refused for some is told', async () => {
    await filled('gone', 2);
    await choose('job-0', 'job-1');
    await button(bar(), 'Run now').click();
    await dialog(page).waitFor();
    await server.did('DELETE', '/v1/topics/gone/jobs/job-0');
    await answer(page, 'Run 2 jobs now');
    await said(page, '1 done, 1 refused');
  });

  test('more are shown on demand', async () => {
    await filled('pages', 1500);
    await says(page.locator('.below'), '100 jobs shown');
    for (const shown of ['200', '400', '1,000', '1,500']) {
      await button(page, 'Show more').click();
      await says(page.locator('.below'), `${shown} jobs shown`);
    }
    await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
    await page.getByRole('link', { name: 'job-1499', exact: true }).waitFor();
    assert.ok((await page.locator('tbody tr').count()) < 120, 'only rows in sight are there');
  });
});
