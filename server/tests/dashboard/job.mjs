// One job: what it shows, and what can be done to it.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { LOOK, answer, button, dialog, open, picture, said, says, shut, visit } from './browser.mjs';
import { Server, dead, receiver, until } from './server.mjs';

describe('one job', () => {
  /** Larger than what a double holds. */
  const BIG = '12345678901234567890';

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

  async function look(topic, id) {
    await visit(page, `${server.url}/#/jobs/${encodeURIComponent(topic)}/${encodeURIComponent(id)}`);
    await page.locator('.head .badge').waitFor();
  }
  async function addRaw(text) {
    const answer = await fetch(`${server.url}/v1/jobs`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: text,
    });
    assert.equal(answer.status, 201, await answer.text());
  }
  const rawJob = async (path) => (await fetch(`${server.url}/v1/topics/${path}`)).text();

  test('JSON is a tree that folds', async () => {
    await server.add({
      topic: 't',
      id: 'json',
      delay: '1h',
      body: { order: 1, deep: { er: { est: 'x' } }, list: [1, 2] },
    });
    await look('t', 'json');
    const deep = page.locator('.tree summary', { hasText: '"er"' });
    const inner = page.locator('.j-leaf', { hasText: '"est"' });
    assert.equal(await inner.isVisible(), false);
    await deep.click();
    assert.equal(await inner.isVisible(), true);
    await page.locator('.tree summary').first().click();
    assert.equal(await deep.isVisible(), false);
    // It stays so while the page looks again.
    const asked = page.waitForResponse((response) => response.url().endsWith('/jobs/json'));
    await asked;
    assert.equal(await deep.isVisible(), false);
  });

  test('bytes are shown in hex, text as text', async () => {
    await server.add({
      topic: 't',
      id: 'bytes',
      delay: '1h',
      body_base64: Buffer.from('Hi\x00\xff there, bytes!', 'latin1').toString('base64'),
    });
    await look('t', 'bytes');
    // A phone has room for half as many a line.
    const lines = LOOK.startsWith('phone')
      ? /00000000 {2}48 69 00 ff 20 74 68 65 {2}Hi·· the\n00000008.*\n00000010 {2}73 21 .*s!/s
      : /00000000 {2}48 69 00 ff 20 74.*Hi·· there, byte\n00000010 {2}73 21 .*s!/s;
    await says(page.locator('.hex'), lines);
    await server.add({ topic: 't', id: 'text', delay: '1h', body: 'two\nlines' });
    await look('t', 'text');
    assert.equal(await page.locator('.body-text').innerText(), 'two\nlines');
  });

  test('a schedule has its next five times in words', async () => {
    const repeat = { cron: '0 9 * * *', tz: 'Europe/Berlin' };
    await server.add({ topic: 't', id: 'daily', delay: '1s', repeat });
    await server.post('/v1/topics/t/pause');
    await look('t', 'daily');
    await says(page.locator('.card', { hasText: 'Schedule' }), 'By cron 0 9 * * *, in Europe/Berlin');
    const times = page.locator('.upcoming li');
    await until('there are five', async () => (await times.count()) === 5);
    assert.match((await times.allInnerTexts())[4], /^\w+day, .* 09:00:00\s*in \d days$/);
  });

  test('the history is a timeline, with each attempt', async () => {
    await dead(server, hooks.url, 'dies', [{ id: '1', says: '418/short' }]);
    await look('dies', '1');
    const events = page.locator('.timeline li');
    await until('all three are there', async () => (await events.count()) === 3);
    const texts = await events.allInnerTexts();
    assert.match(texts[0], /^Died.*attempt 2.*took .*HTTP 418.*teapot.*<b>no<\/b> & "no" short/s);
    assert.match(texts[1], /^Failed.*attempt 1/s);
    assert.match(texts[2], /^Added/);
    await picture(page, 'history');
    await server.post('/v1/topics/dies/pause');
    await button(page, 'Redrive').click();
    await said(page, 'off the shelf');
    await says(page.locator('.head .badge'), 'Ready');
  });

  test('a job is run, held and let go', async () => {
    await server.add({ topic: 'free', id: 'x', delay: '1h' });
    await look('free', 'x');
    await button(page, 'Hold').click();
    await says(page.locator('.head .badge'), 'Held');
    await button(page, 'Let go').click();
    await says(page.locator('.head .badge'), 'Delayed');
    await button(page, 'Run now').click();
    await says(page.locator('.head .badge'), 'Ready');
    assert.equal((await server.job('free', 'x')).state, 'ready');
  });

  test('what the server would refuse is not offered', async () => {
    const offered = async (state) => {
      await says(page.locator('.head .badge'), state);
      return [await button(page, 'Reschedule').count(), await button(page, 'Edit body').count()];
    };
    await server.add({ topic: 'held', id: 'x', retry: { attempts: 1 } });
    await look('held', 'x');
    assert.deepEqual(await offered('Ready'), [1, 1]);
    await server.post('/v1/topics/held/pop');
    assert.deepEqual(await offered('Running'), [0, 1]);
    await server.post('/v1/topics/held/jobs/x/fail');
    assert.deepEqual(await offered('Dead'), [0, 0]);
  });

  test('a job is rescheduled', async () => {
    await server.add({ topic: 'free', id: 'due', delay: '1h' });
    await look('free', 'due');
    await button(page, 'Reschedule').click();
    await dialog(page).getByRole('button', { name: 'Reschedule' }).click();
    await says(dialog(page).getByRole('alert'), 'Say when');
    await picture(page, 'reschedule');
    await answer(page, 'Reschedule', { at: '2099-07-01T12:00:00' });
    await until('it is', async () => (await server.job('free', 'due')).due === '2099-07-01T10:00:00.000Z');
  });

  test('a body is edited, and no number in it is rounded', async () => {
    await addRaw(`{"topic":"free","id":"body","delay":"1h","body":{"big":${BIG},"name":"a"}}`);
    await look('free', 'body');
    await says(page.locator('.tree'), BIG);
    await button(page, 'Edit body').click();
    const area = dialog(page).locator('textarea');
    const text = await area.inputValue();
    assert.ok(text.includes(`"big": ${BIG}`), text);
    await area.fill(text.replace('"a"', '"b'));
    await dialog(page).getByRole('button', { name: 'Save' }).click();
    await says(dialog(page).getByRole('alert'), 'not JSON');
    await picture(page, 'edit-body');
    await area.fill(text.replace('"a"', '"b"'));
    await answer(page, 'Save');
    await says(page.locator('.tree'), '"b"');
    assert.ok((await rawJob('free/jobs/body')).includes(`"body":{"big":${BIG},"name":"b"}`));
  });

  test('a job that has changed meanwhile is not changed by one who did not see it', async () => {
    await server.add({ topic: 'free', id: 'race', delay: '1h', body: 'a' });
    await look('free', 'race');
    await button(page, 'Edit body').click();
    await dialog(page).locator('textarea').fill('mine');
    await server.did('PATCH', '/v1/topics/free/jobs/race', { body: 'theirs' });
    await dialog(page).getByRole('button', { name: 'Save' }).click();
    await says(dialog(page).getByRole('alert'), 'version');
    await button(dialog(page), 'Cancel').click();
    assert.equal((await server.job('free', 'race')).body, 'theirs');
  });

  test('a job is cloned with all it was given', async () => {
    const given = {
      retry: { ladder: ['15s', '3m'] },
      repeat: { every: '5m', count: 3 },
      ttr: '10s',
      priority: 7,
      retain: '1h',
    };
    await addRaw(
      `{"topic":"free","id":"mould","delay":"1h","body":{"n":${BIG}},${JSON.stringify(given).slice(1)}`,
    );
    await look('free', 'mould');
    await page.getByRole('link', { name: 'Clone' }).click();
    await page.locator('[name=id]').fill('copy');
    await page.locator('[name=delay]').fill('2h');
    await button(page, 'Add job').click();
    await said(page, 'Job copy is added.');
    const [mould, copy] = [await server.job('free', 'mould'), await server.job('free', 'copy')];
    for (const name of ['retry', 'ttr', 'priority', 'retain', 'repeat'])
      assert.deepEqual(copy[name], mould[name], name);
    assert.ok((await rawJob('free/jobs/copy')).includes(`"body":{"n":${BIG}}`));
  });

  test('a job is cancelled, and the page says that it is gone', async () => {
    await server.add({ topic: 'free', id: 'no more', delay: '1h' });
    await look('free', 'no more');
    await button(page, 'Cancel job').click();
    await answer(page, 'Cancel this job');
    await says(page.locator('.note'), 'This job is gone');
    await picture(page, 'gone');
    assert.equal((await server.job('free', 'no more')).status, 404);
    await visit(page, `${server.url}/#/jobs/free/no%20more`);
    await says(page.locator('.empty'), 'There is no such job');
  });
});
