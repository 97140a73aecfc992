// Every view in both colour schemes, on a phone and in both languages: pictures, and what axe-core says.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { LOOKS, faults, open, picture, shut, visit } from './browser.mjs';
import { Server, dead, receiver, until } from './server.mjs';

describe('looks', () => {
  let server;
  let hooks;

  const VIEWS = {
    overview: ['', '.spark:has(.spark-line)'],
    topics: ['topics?sort=delayed', 'tbody tr:not(.gap)'],
    topic: ['topics/payment.result', '.errors li'],
    chooser: ['jobs', '.choices-list li'],
    jobs: ['jobs?topic=order.close', 'tbody tr:not(.gap)'],
    job: ['jobs/payment.result/p-1', '.timeline li'],
    schedule: ['jobs/report.nightly/every%20morning', '.upcoming li'],
    bytes: ['jobs/report.nightly/bytes', '.hex'],
    dead: ['dead', '.errors li'],
    delivery: ['delivery', 'td.name'],
    events: ['events', '.events td.name'],
    sums: ['events?show=sums', '.sum-table td'],
    nodes: ['nodes', '.node'],
    keys: ['keys', '.audit td.name'],
    add: ['add', '.copyable'],
  };

  before(async () => {
    hooks = await receiver();
    const rule = '{ name = "jobs die", kind = "dead", topic = "*", to = "http://127.0.0.1:9/hook" }';
    server = await Server.start({ settings: ['alarms.every=1s', `alarms.rules=[${rule}]`] });
    await fill();
  });
  after(async () => {
    await server.end();
    hooks.end();
  });

  async function fill() {
    const jobs = [];
    const topics = {
      'order.close': 320,
      'payment.timeout': 240,
      'shop.remind': 180,
      'mail.digest': 140,
      'coupon.expire': 100,
      'session.sweep': 80,
      'invoice.chase': 60,
      'trial.end': 40,
      'cache.warm': 20,
    };
    let seed = 7;
    const chance = () => (seed = (seed * 16_807) % 2_147_483_647) / 2_147_483_647;
    for (const [topic, count] of Object.entries(topics)) {
      for (let n = 0; n < count; n += 1) {
        const minutes = chance() < 0.5 ? 2 + chance() * 58 : 60 + chance() * 40_000;
        jobs.push({
          topic,
          id: `${topic.split('.')[0]}-${1000 + n}`,
          delay: `${minutes.toFixed(2)}m`,
          body: { order: 1000 + n, items: [{ sku: 'A-1', count: 2 }], customer: { tier: 'gold' } },
        });
      }
    }
    for (let n = 0; n < 24; n += 1) jobs.push({ topic: 'image.resize', id: `img-${n}`, body: { n } });
    for (let n = 0; n < 8; n += 1)
      jobs.push({ topic: 'payment.result', id: `ok-${n}`, target: `${hooks.url}/200`, retain: '1h' });
    jobs.push({
      topic: 'report.nightly',
      id: 'every morning',
      delay: '3h',
      repeat: { cron: '0 9 * * *', tz: 'Asia/Shanghai' },
      body: 'Good morning,\nhere is the report.',
    });
    jobs.push({
      topic: 'report.nightly',
      id: 'bytes',
      delay: '3h',
      body_base64: Buffer.from(Array.from({ length: 180 }, (_, n) => n)).toString('base64'),
    });
    await server.add(...jobs);
    await server.post('/v1/topics/image.resize/pop', { max: 3, ttr: '1h' });
    await server.post('/v1/topics/cache.warm/pause');
    await server.put('/v1/topics/payment.result', {
      ttr: '30s',
      rate: '100',
      retain: '7d',
      headers: { 'X-Shop': 'one' },
      retry: { attempts: 2, backoff: { base: '1ms', max: '1ms', jitter: 0 } },
    });
    await dead(
      server,
      hooks.url,
      'payment.result',
      ['503', '503', '503', '418', '410'].map((says, n) => ({ id: `p-${n}`, says })),
    );
    await dead(
      server,
      hooks.url,
      'stock.sync',
      ['500', '500'].map((says, n) => ({ id: `s-${n}`, says })),
    );
    await server.post('/v1/workers', {
      app: 'shop',
      topics: ['order.close', 'shop.remind'],
      url: `${hooks.url}/200`,
      lease: '10m',
    });
  }

  for (const look of Object.keys(LOOKS)) {
    test(`every view is accessible and has its picture: ${look}`, async () => {
      const page = await open(null, look);
      const wrong = [];
      for (const [name, [path, sign]] of Object.entries(VIEWS)) {
        await visit(page, `${server.url}/#/${path}`);
        await page.locator(sign).first().waitFor();
        await picture(page, name);
        for (const fault of await faults(page)) wrong.push(`${name}: ${fault}`);
        // Nothing sticks out to the side.
        const width = await page.evaluate(() => document.documentElement.scrollWidth);
        const most = page.viewportSize().width;
        if (width > most) wrong.push(`${name}: is ${width} wide in ${most}`);
      }
      assert.deepEqual(wrong, []);
      await shut(page);
    });
  }

  test('questions are accessible, too', async () => {
    for (const look of ['light', 'dark', 'phone', 'zh-dark']) {
      const page = await open(`${server.url}/#/topics/payment.result`, look);
      const words = look.startsWith('zh') ? ['编辑设置', '清空…'] : ['Edit settings', 'Empty…'];
      for (const [at, name] of words.entries()) {
        await page.getByRole('button', { name }).click();
        await page.locator('dialog[open]').waitFor();
        await picture(page, `question-${at}`);
        assert.deepEqual(await faults(page), [], `${name}, ${look}`);
        await page.keyboard.press('Escape');
        await page.locator('dialog').waitFor({ state: 'detached' });
      }
      await shut(page);
    }
  });

  test('the chart tells what is under the pointer', async () => {
    const page = await open(server.url);
    const bar = page
      .locator('.bar')
      .filter({ has: page.locator('rect') })
      .nth(20);
    await bar.hover();
    await page.locator('.tip').waitFor();
    await picture(page, 'tip');
    const total = Number(await page.locator('.tip-time strong').innerText());
    const each = await page.locator('.tip p:not(.tip-time) .num').allInnerTexts();
    assert.equal(
      each.reduce((sum, text) => sum + Number(text), 0),
      total,
    );
    await until('the pointer is away', async () => {
      await page.mouse.move(5, 5);
      return (await page.locator('.tip').count()) === 0;
    });
    await shut(page);
  });
});
