'use strict';

const { Client } = require('./lib/client.js');
const { LingerError } = require('./lib/error.js');
const { Job, RawJson } = require('./lib/job.js');
const { Again, RetryIn } = require('./lib/outcome.js');
const { Service } = require('./lib/service.js');
const { PushedJob, Webhook, verify } = require('./lib/webhook.js');
const { Worker } = require('./lib/worker.js');

module.exports = { Again, Client, Job, LingerError, PushedJob, RawJson, RetryIn, Service, Webhook, Worker, verify };
