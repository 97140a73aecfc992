// All tests of the dashboard in one look, one after the other in one process: they share a browser.

import { after } from 'node:test';

import { LOOK, close } from './browser.mjs';
import { endAll } from './server.mjs';

/** What people do: in each look. */
const ACTIONS = ['first', 'topics', 'jobs', 'job', 'dead', 'delivery', 'add', 'events', 'frame', 'keys'];
/** What takes its looks itself, or none. */
const ONCE = ['words', 'away', 'size', 'looks'];

for (const name of LOOK === 'light' ? [...ONCE, ...ACTIONS] : ACTIONS) await import(`./${name}.mjs`);
after(async () => {
  endAll();
  await close();
});
