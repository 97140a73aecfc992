// A fresh server, and the overview of one that has work.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';

import { open, picture, says, shut, tile, visit } from './browser.mjs';
import { Server, until } from './server.mjs';

describe('the overview', () => {
  const run = promisify(execFile);

  test('a fresh server shows three commands to try, and they work as shown', async () => {
    const server = await Server.start();
    const page = await open(server.url);
    const commands = page.locator('.lesson pre');
    await commands.nth(2).waitFor();
    await picture(page, 'fresh');
    const texts = await commands.allTextContents();
    assert.equal(texts.length, 3);
    const added = JSON.parse((await run('sh', ['-c', texts[0]])).stdout);
    assert.equal(added.state, 'delayed');
    // Without a reload: the lesson goes, and the job is counted.
    await page.locator('.lesson').waitFor({ state: 'detached' });
    await says(tile(page, 'Delayed'), /^1$/);
    const popped = JSON.parse((await run('sh', ['-c', texts[1]])).stdout);
    assert.deepEqual(
      popped.jobs.map(({ id }) => id),
      ['1001'],
    );
    await says(tile(page, 'Running'), /^1$/);
    assert.equal(JSON.parse((await run('sh', ['-c', texts[2]])).stdout).changed, true);
    await says(tile(page, 'Running'), /^0$/);
    await shut(page);
    await server.end();
  });

  let server;
  before(async () => {
    server = await Server.start();
  });
  after(() => server.end());

  test('the overview counts what the server counts, and goes on counting', async () => {
    const delayed = (n) => Array.from({ length: n }, () => ({ topic: 'a', delay: '1h' }));
    await server.add(...delayed(5), { topic: 'b' }, { topic: 'b' }, { topic: 'a', held: true, delay: '1h' });
    const page = await open(server.url);
    await says(tile(page, 'Delayed'), /^5$/);
    await says(tile(page, 'Ready'), /^2$/);
    await says(tile(page, 'Held'), /^1$/);
    await server.add(...delayed(1200));
    await says(tile(page, 'Delayed'), /^1,205$/);
    await page.locator('.oldest a').waitFor();
    await says(page.locator('.flow', { hasText: 'Added' }), /[1-9]/);
    await shut(page);
  });

  test('what falls due is stacked by topic, and the rest is told as all others', async () => {
    const jobs = [];
    for (let topic = 1; topic <= 9; topic += 1) {
      for (let n = 0; n < 20 - topic; n += 1) jobs.push({ topic: `due.${topic}`, delay: `${600 + 60 * n}s` });
    }
    const own = await Server.start();
    await own.add(...jobs);
    const page = await open(own.url);
    const legend = page.locator('.legend li');
    await says(page.locator('.due-sum'), `${jobs.length} jobs fall due in the coming hour.`);
    const texts = await legend.allInnerTexts();
    assert.equal(texts.length, 8, texts.join(' '));
    assert.match(texts[0], /due\.1\s*19/);
    assert.match(texts[7], /all others\s*23/);
    // Bars of all eight colours, and of the picked range alone.
    const colors = () =>
      page
        .locator('.bar rect')
        .evaluateAll((all) => [...new Set(all.map((one) => one.getAttribute('class')))].sort());
    assert.deepEqual(await colors(), ['c0', 'c1', 'c2', 'c3', 'c4', 'c5', 'c6', 'c7']);
    await page.getByRole('button', { name: 'Minute' }).click();
    await says(page.locator('.due-sum'), '0 jobs fall due in the coming minute.');
    await own.add({ topic: 'due.1', delay: '45s' });
    await says(page.locator('.due-sum'), '1 job falls due in the coming minute.');
    for (const [name, words] of [
      ['Day', 'day'],
      ['Month', 'month'],
    ]) {
      await page.getByRole('button', { name }).click();
      await says(page.locator('.due-sum'), `${jobs.length + 1} jobs fall due in the coming ${words}.`);
    }
    await shut(page);
    await own.end();
  });

  test('the bars move with the time', async () => {
    await server.add({ topic: 'a', delay: '50s' });
    const page = await open(server.url);
    await page.getByRole('button', { name: 'Minute' }).click();
    // Until then the bars of the coming hour stand there.
    await says(page.locator('.due-sum'), 'in the coming minute.');
    // Looked up and measured in one step: bars are made anew at each look at the server.
    const left = () =>
      page.locator('.due-plot').evaluate((plot) => {
        const bars = plot.querySelectorAll('.bar rect');
        return bars[bars.length - 1]?.getBoundingClientRect().x;
      });
    const first = await until('a bar stands there', left);
    await until('the bar has moved to the left', async () => (await left()) < first - 5);
    // Not only from one look at the server to the next, but with every frame.
    // A bar that is over goes, and with it what is known of it: so it is asked for in each.
    const places = await page.locator('.due-plot').evaluate(async (plot) => {
      const seen = new Set();
      for (let n = 0; n < 30; n += 1) {
        await new Promise(requestAnimationFrame);
        seen.add(plot.querySelector('.bar')?.parentNode.getAttribute('transform'));
      }
      return seen.size;
    });
    assert.ok(places > 10, `${places} places in 30 frames`);
    await shut(page);
  });

  test('an alarm that fires is on the overview', async () => {
    const rule =
      '{ name = "too many", kind = "backlog", topic = "*", threshold = 2, to = "http://127.0.0.1:9/hook" }';
    const own = await Server.start({ settings: ['alarms.every=1s', `alarms.rules=[${rule}]`] });
    const page = await open(own.url);
    await says(page.locator('.facts'), '1 rule, quiet');
    await own.add({ topic: 'slow' }, { topic: 'slow' }, { topic: 'slow' });
    await says(page.locator('.alarm'), /too many.*slow/s);
    await says(page.locator('.facts'), '1 firing');
    await picture(page, 'alarm');
    await visit(page, `${own.url}/#/`);
    await says(page.locator('.alarm'), 'too many');
    await shut(page);
    await own.end();
  });
});
