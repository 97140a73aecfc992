// The browser, and what tests do with a page.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

import { PATIENCE_MS } from './server.mjs';

const need = createRequire(`${process.env.NODE_MODULES}/`);
const { chromium } = need('playwright-core');
const AXE = readFileSync(need.resolve('axe-core/axe.min.js'), 'utf8');

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];
const DESK = { width: 1360, height: 860 };

/** How the page may be looked at. */
export const LOOKS = {
  light: { colorScheme: 'light', viewport: DESK },
  dark: { colorScheme: 'dark', viewport: DESK },
  phone: { colorScheme: 'light', viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true },
  'phone-dark': {
    colorScheme: 'dark',
    viewport: { width: 390, height: 844 },
    isMobile: true,
    hasTouch: true,
  },
  zh: { colorScheme: 'light', viewport: DESK, locale: 'zh-CN' },
  'zh-dark': { colorScheme: 'dark', viewport: DESK, locale: 'zh-CN' },
};

/** How it is looked at where a test does not say. */
export const LOOK = process.env.LOOK ?? 'light';

let browser;

export async function close() {
  await browser?.close();
}

/** A page that nobody has looked at yet, in a look of one's choosing. Troubles are collected. */
export async function open(url, look = LOOK, options = {}) {
  browser ??= await chromium.launch({ executablePath: process.env.CHROMIUM, args: FLAGS });
  const context = await browser.newContext({
    timezoneId: 'Europe/Berlin',
    locale: 'en',
    ...LOOKS[look],
    ...options,
  });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  page.look = look;
  page.troubles = [];
  page.on('pageerror', (error) => page.troubles.push(error.stack));
  page.on('console', (message) => {
    // What a test has refused on purpose is logged by the browser itself.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
      page.troubles.push(message.text());
  });
  page.on('dialog', (dialog) => page.troubles.push(`a dialog: ${dialog.message()}`));
  if (url) await visit(page, url);
  return page;
}

/** Goes to a page and waits until it stands. */
export async function visit(page, url) {
  await page.goto('about:blank');
  await page.goto(url);
  await page.locator('h1').waitFor();
}

/** Nothing went wrong that the page did not say: no exception, nothing that the policy refused. */
export async function shut(page) {
  assert.deepEqual(page.troubles, []);
  await page.context().close();
}

/** A picture of it, for people. */
export async function picture(page, name) {
  await page.screenshot({ path: join(process.env.OUT_DIR, `${name}-${page.look}.png`) });
}

/** Opens the menu where it is closed at first, which is on a phone. */
export async function menu(page) {
  const closed = page.locator('.menu-button[aria-expanded=false]');
  if (await closed.isVisible()) await closed.click();
}
/** Goes to a view as people do: by the menu. */
export async function go(page, name) {
  await menu(page);
  await page.getByRole('navigation').getByRole('link', { name }).click();
}

/** What axe-core finds wrong with the page as it is now. */
export async function faults(page) {
  // Evaluated from outside: the page's own policy lets no script in.
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ['violations'] }));
  return violations.map(
    ({ id, nodes }) =>
      `${id}: ${nodes.map((node) => `${node.target} ${node.any[0]?.message ?? ''}`).join('; ')}`,
  );
}

/** The one with this text on it. */
export const button = (page, name, options = {}) =>
  page.getByRole('button', { name, exact: true, ...options });
/** The question that is open. */
export const dialog = (page) => page.locator('dialog[open]');
/** Answers the question that is open with this button, and waits until it is gone. */
export async function answer(page, name, fields = {}) {
  for (const [field, value] of Object.entries(fields))
    await dialog(page).locator(`[name="${field}"]`).fill(value);
  await dialog(page).getByRole('button', { name }).click();
  await dialog(page).waitFor({ state: 'detached' });
}
/** Waits for a word that says what was done. */
export const said = (page, text) => page.locator('.toast', { hasText: text }).first().waitFor();
/** The number on a tile. */
export const tile = (page, name) => page.locator('.tile', { hasText: name }).locator('.tile-value');
/** Waits until a place says this. */
export async function says(locator, text) {
  await locator.filter({ hasText: text }).first().waitFor();
}
