// All tests of the dashboard, one after the other in one process: they share a browser.

import { after } from 'node:test';

import { close } from './browser.mjs';
import { endAll } from './server.mjs';

await import('./words.mjs');
await import('./first.mjs');
await import('./topics.mjs');
await import('./jobs.mjs');
await import('./job.mjs');
await import('./dead.mjs');
await import('./delivery.mjs');
await import('./add.mjs');
await import('./events.mjs');
await import('./frame.mjs');
await import('./keys.mjs');
await import('./away.mjs');
await import('./size.mjs');
await import('./looks.mjs');
after(async () => {
  endAll();
  await close();
});
