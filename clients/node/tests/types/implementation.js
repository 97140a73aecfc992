'use strict';

// Compiled, never run: what lib/ has is what index.d.ts promises.

/** @type {Omit<typeof import('linger-queue'), 'Job' | 'PushedJob'>} */
const kept = {
  ...require('../../lib/client.js'),
  ...require('../../lib/error.js'),
  ...require('../../lib/job.js'),
  ...require('../../lib/outcome.js'),
  ...require('../../lib/service.js'),
  ...require('../../lib/webhook.js'),
  ...require('../../lib/worker.js'),
};

console.log(kept);
