// Events: searched, followed, and summed up.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { button, open, says, shut, visit } from './browser.mjs';
import { Server, dead, receiver, until } from './server.mjs';

describe('events', () => {
  let server;
  let hooks;
  let page;
  before(async () => {
    hooks = await receiver();
    server = await Server.start();
    await server.add({ topic: 'mail', id: '1' }, { topic: 'mail', id: '2', delay: '1h' });
    const { jobs } = await server.post('/v1/topics/mail/pop');
    await server.post(`/v1/topics/mail/jobs/${jobs[0].id}/finish`, { lease: jobs[0].lease });
    await dead(server, hooks.url, 'bill', [{ id: 'b', says: '500' }]);
    page = await open(server.url);
  });
  after(async () => {
    await shut(page);
    await server.end();
    hooks.end();
  });

  const kinds = () => page.locator('.events td.state').allInnerTexts();
  const rows = (page) => page.locator('.events tbody tr:not(.gap)');

  test('what happened is there, the newest first, after the job is gone', async () => {
    await visit(page, `${server.url}/#/events?topic=mail&id=1`);
    await until('all three', async () => (await kinds()).join() === 'Finished,Handed out,Added');
    await page.getByRole('link', { name: '1', exact: true }).first().click();
    await page.getByRole('link', { name: 'Its events' }).click();
    await until('the same', async () => (await kinds()).join() === 'Finished,Handed out,Added');
  });

  test('it is searched by kind and by error, and the address says so', async () => {
    await visit(page, `${server.url}/#/events`);
    await rows(page).first().waitFor();
    await page.getByLabel('What', { exact: true }).selectOption('died');
    await until('the death', async () => (await kinds()).join() === 'Died');
    await says(rows(page).first(), /bill.*500/s);
    assert.match(page.url(), /kind=died/);
    await page.getByLabel('Error contains').fill('no such thing');
    await page.getByLabel('Error contains').blur();
    await page.getByText('No such events').waitFor();
    await button(page, 'Clear filters').click();
    await rows(page).first().waitFor();
    assert.doesNotMatch(page.url(), /kind|error/);
  });

  test('what happens comes by itself, unless it is not followed', async () => {
    await visit(page, `${server.url}/#/events?topic=new`);
    await page.getByText('No such events').waitFor();
    await server.add({ topic: 'new', id: 'first', delay: '1h' });
    await page.getByRole('link', { name: 'first' }).waitFor();
    const follow = button(page, 'Follow');
    assert.equal(await follow.getAttribute('aria-pressed'), 'true');
    await follow.click();
    await until('let go', async () => (await follow.getAttribute('aria-pressed')) === 'false');
    await server.add({ topic: 'new', id: 'second', delay: '1h' });
    await until('it is logged', async () => {
      const { events } = await server.get('/v1/events?topic=new');
      return events.length === 2;
    });
    assert.equal(await page.getByRole('link', { name: 'second' }).count(), 0);
    await follow.click();
    await page.getByRole('link', { name: 'second' }).waitFor();
    assert.deepEqual(await kinds(), ['Added', 'Added']);
  });

  test('sums are by hour and by topic', async () => {
    await visit(page, `${server.url}/#/events`);
    await button(page, 'By topic').click();
    const row = page.locator('.sum-table tbody tr').filter({ hasText: 'mail' });
    await row.waitFor();
    const cells = await row.locator('td').allInnerTexts();
    assert.deepEqual(cells.slice(0, 5), ['2', '1', '1', '0', '0']);
    await page.getByRole('img', { name: /^Events by hour/ }).waitFor();
    await row.getByRole('link').click();
    await until('of this topic', async () => /topic=mail/.test(page.url()));
    await rows(page).first().waitFor();
    assert.equal(await page.locator('.sum-table').count(), 0);
  });
});
