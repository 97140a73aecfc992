'use strict';

const { randomUUID } = require('node:crypto');
const { LingerError } = require('./error.js');
const { Server, NoAnswer } = require('./http.js');
const { encodeJob, readJob, readJobs } = require('./job.js');
const { milliseconds, onWire, readMoments, sleep, Pauses } = require('./time.js');
const { version } = require('../package.json');

const LOCAL = 'http://127.0.0.1:7300';
const CONNECT_MS = 5_000;
const ANSWER_MS = 10_000;

/** A worker asks how the clocks differ; nobody else needs to. */
const serverNow = Symbol('serverNow');

/**
 * @typedef {object} Call
 * @property {string} [body]
 * @property {Record<string, string>} [headers]
 * @property {boolean} harmless whether it may be made once more when its answer was lost
 * @property {string[]} [doneIf] codes that say, of the second try, that the first was carried out
 * @property {object} [doneAs] what is answered then
 * @property {number} [waitMs] how long the server is asked to wait
 * @property {boolean} [keepAnswer]
 * @property {AbortSignal} [signal]
 */

/** A topic that the second try does not find was emptied by the first. */
const EMPTIED = { doneIf: ['not_found'], doneAs: { count: 0 } };

/** Calls a Linger server, or one of several that share a store. */
class Client {
  #servers;
  #current = 0;
  #headers;
  #connectMs;
  #answerMs;
  #skewMs = 0;

  /** @param {import('..').ClientOptions} [options] */
  constructor({ servers = process.env.LINGER_SERVER, key = process.env.LINGER_KEY, ...options } = {}) {
    const { timeout = ANSWER_MS, connectTimeout = CONNECT_MS, ca, tls = {} } = options;
    const addresses = Array.isArray(servers) ? servers : (servers || LOCAL).split(',');
    if (addresses.length === 0) throw new TypeError('servers is empty; give the address of one at least');
    this.#servers = addresses.map((address) => new Server(address.trim(), ca ? { ca, ...tls } : tls));
    this.#answerMs = length(timeout, 'timeout');
    this.#connectMs = length(connectTimeout, 'connectTimeout');
    this.#headers = { 'user-agent': `linger-node/${version}`, ...(key ? { authorization: `Bearer ${key}` } : {}) };
  }

  /**
   * @param {import('..').NewJob} job
   * @param {{idempotencyKey?: string, signal?: AbortSignal}} [options]
   */
  async add(job, { idempotencyKey, signal } = {}) {
    const named = job?.id !== undefined && job.id !== null;
    /** @type {Record<string, string>} */
    const headers = named ? {} : { 'idempotency-key': idempotencyKey ?? randomUUID() };
    const harmless = !named || repeatable(job);
    const { value, text } = await this.#call('POST', '/v1/jobs', { body: encodeJob(job), headers, harmless, signal });
    return readJob(value, text);
  }

  /**
   * @param {import('..').NewJob[]} jobs
   * @param {{signal?: AbortSignal}} [options]
   */
  async addMany(jobs, { signal } = {}) {
    // With ids of their own a second try finds what the first has added.
    const named = jobs.map((job) =>
      job.id === undefined || job.id === null ? { ...job, id: randomUUID(), on_conflict: 'keep' } : job,
    );
    const body = `[${named.map(encodeJob).join(',')}]`;
    const { value } = await this.#call('POST', '/v1/jobs', { body, harmless: named.every(repeatable), signal });
    return value.map(readAdded);
  }

  /**
   * @param {string} topic
   * @param {string} id
   * @param {{signal?: AbortSignal}} [options]
   */
  async get(topic, id, { signal } = {}) {
    const { value, text } = await this.#call('GET', jobPath(topic, id), { harmless: true, signal });
    return readJob(value, text);
  }

  /**
   * @param {string} topic
   * @param {string} id
   * @param {import('..').Changes} changes
   * @param {{if_version?: number, signal?: AbortSignal}} [options]
   */
  async update(topic, id, changes, { if_version, signal } = {}) {
    const body = encodeJob({ ...changes, if_version });
    return this.#change('PATCH', jobPath(topic, id), { body, harmless: if_version === undefined, signal });
  }

  /**
   * @param {string} topic
   * @param {string} id
   * @param {{if_version?: number, signal?: AbortSignal}} [options]
   */
  async delete(topic, id, { if_version, signal } = {}) {
    const path = jobPath(topic, id) + query({ if_version });
    return this.#change('DELETE', path, { harmless: if_version === undefined, doneIf: ['not_found'], signal });
  }

  /**
   * @param {string} topic
   * @param {string} id
   * @param {{signal?: AbortSignal}} [options]
   */
  async history(topic, id, { signal } = {}) {
    const { value } = await this.#call('GET', `${jobPath(topic, id)}/history`, { harmless: true, signal });
    return value.history.map(readMoments);
  }

  /**
   * @param {string} topic
   * @param {string} id
   * @param {{if_version?: number, signal?: AbortSignal}} [options]
   */
  async run(topic, id, options) {
    return this.#byHand('run', topic, id, false, options);
  }

  /**
   * @param {string} topic
   * @param {string} id
   * @param {{if_version?: number, signal?: AbortSignal}} [options]
   */
  async hold(topic, id, options) {
    return this.#byHand('hold', topic, id, true, options);
  }

  /**
   * @param {string} topic
   * @param {string} id
   * @param {{if_version?: number, signal?: AbortSignal}} [options]
   */
  async unhold(topic, id, options) {
    return this.#byHand('unhold', topic, id, true, options);
  }

  /**
   * @param {string | string[]} topics
   * @param {import('..').PopOptions} [options]
   */
  async pop(topics, { signal, ...ask } = {}) {
    const body = JSON.stringify(onWire({ topics: Array.isArray(topics) ? topics : [topics], ...ask }));
    const waitMs = milliseconds(ask.wait) ?? 0;
    // What was handed out is the caller's, even if the signal comes while the answer does.
    const call = { body, harmless: true, waitMs, keepAnswer: true, signal };
    const { value, text } = await this.#call('POST', '/v1/pop', call);
    return readJobs(value.jobs, text);
  }

  /**
   * @param {import('..').JobRef} job
   * @param {{signal?: AbortSignal}} [options]
   */
  async finish(job, options) {
    return this.#settle('finish', job, options);
  }

  /**
   * @param {import('..').JobRef} job
   * @param {import('..').FailOptions} [options]
   */
  async fail(job, options) {
    return this.#settle('fail', job, options);
  }

  /**
   * @param {import('..').JobRef} job
   * @param {import('..').ReleaseOptions} [options]
   */
  async release(job, options) {
    return this.#settle('release', job, options);
  }

  /**
   * @param {import('..').JobRef} job
   * @param {import('..').TouchOptions} [options]
   */
  async touch({ topic, id, lease }, { signal, ...fields } = {}) {
    const body = JSON.stringify(onWire({ lease, ...fields }));
    return this.#change('POST', `${jobPath(topic, id)}/touch`, { body, harmless: true, signal });
  }

  /**
   * @param {string} topic
   * @param {import('..').JobFilter} [filter]
   */
  async *jobs(topic, { signal, ...filter } = {}) {
    for await (const { value, text } of this.#pages(`${topicPath(topic)}/jobs`, filter, signal)) {
      yield* readJobs(value.jobs, text);
    }
  }

  /** @param {import('..').TopicFilter} [filter] */
  async *topics({ signal, ...filter } = {}) {
    for await (const { value } of this.#pages('/v1/topics', filter, signal)) yield* value.topics;
  }

  /**
   * @param {string} topic
   * @param {{signal?: AbortSignal}} [options]
   */
  async topic(topic, { signal } = {}) {
    return (await this.#call('GET', topicPath(topic), { harmless: true, signal })).value;
  }

  /**
   * @param {string} topic
   * @param {import('..').TopicSettings} settings
   * @param {{signal?: AbortSignal}} [options]
   */
  async configure(topic, settings, { signal } = {}) {
    const body = JSON.stringify(onWire(settings));
    return (await this.#call('PUT', topicPath(topic), { body, harmless: true, signal })).value;
  }

  /**
   * @param {string} topic
   * @param {{signal?: AbortSignal}} [options]
   */
  async forget(topic, { signal } = {}) {
    return (await this.#call('DELETE', topicPath(topic), { harmless: true, ...EMPTIED, signal })).value;
  }

  /**
   * @param {string} topic
   * @param {{for?: import('..').Length, signal?: AbortSignal}} [options]
   */
  async pause(topic, options) {
    return this.#onTopic('pause', topic, { harmless: true }, options);
  }

  /**
   * @param {string} topic
   * @param {{signal?: AbortSignal}} [options]
   */
  async resume(topic, options) {
    return this.#onTopic('resume', topic, { harmless: true }, options);
  }

  /**
   * @param {string} topic
   * @param {{signal?: AbortSignal}} [options]
   */
  async empty(topic, options) {
    return this.#onTopic('empty', topic, { harmless: true, ...EMPTIED }, options);
  }

  /**
   * @param {string} topic
   * @param {import('..').RedriveOptions} [options]
   */
  async redrive(topic, options) {
    return this.#onTopic('redrive', topic, { harmless: false }, options);
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {import('..').RequestOptions} [options]
   */
  async request(method, path, { body, harmless = method === 'GET', signal } = {}) {
    const text = body === undefined ? undefined : JSON.stringify(body);
    return (await this.#call(method, path, { body: text, harmless, signal })).value;
  }

  close() {
    for (const server of this.#servers) server.close();
  }

  /** The time on the server's clock, as near as its last answer told. */
  [serverNow]() {
    return Date.now() + this.#skewMs;
  }

  /**
   * @param {string} verb
   * @param {string} topic
   * @param {string} id
   * @param {boolean} harmless
   * @param {{if_version?: number, signal?: AbortSignal}} [options]
   */
  #byHand(verb, topic, id, harmless, { if_version, signal } = {}) {
    const body = JSON.stringify({ if_version });
    const path = `${jobPath(topic, id)}/${verb}`;
    return this.#change('POST', path, { body, harmless: harmless && if_version === undefined, signal });
  }

  /**
   * @param {string} verb
   * @param {import('..').JobRef} job
   * @param {Record<string, any>} [options]
   */
  #settle(verb, { topic, id, lease }, { signal, ...fields } = {}) {
    const body = JSON.stringify(onWire({ lease, ...fields }));
    const path = `${jobPath(topic, id)}/${verb}`;
    // Without a lease a second try could hit the next attempt.
    return this.#change('POST', path, { body, harmless: Boolean(lease), doneIf: ['not_found', 'lease_lost'], signal });
  }

  /**
   * @param {string} verb
   * @param {string} topic
   * @param {Call} call
   * @param {Record<string, any>} [options]
   */
  async #onTopic(verb, topic, call, { signal, ...fields } = {}) {
    const body = JSON.stringify(onWire(fields));
    return (await this.#call('POST', `${topicPath(topic)}/${verb}`, { ...call, body, signal })).value;
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {Call} call
   */
  async #change(method, path, call) {
    const { value } = await this.#call(method, path, call);
    if (value.job) readMoments(value.job);
    return value;
  }

  /**
   * @param {string} path
   * @param {Record<string, any>} filter
   * @param {AbortSignal | undefined} signal
   */
  async *#pages(path, filter, signal) {
    let cursor = filter.cursor;
    do {
      const page = await this.#call('GET', path + query({ ...filter, cursor }), { harmless: true, signal });
      yield page;
      cursor = page.value.cursor;
    } while (cursor !== undefined);
  }

  /**
   * Makes a call: at one server until that fails, then at the next, as often as is safe.
   *
   * @param {string} method
   * @param {string} path
   * @param {Call} call
   * @returns {Promise<{value: any, text: string}>}
   */
  async #call(method, path, call) {
    const tries = Math.max(this.#servers.length, 2);
    let at = this.#current;
    let lost = false;
    let doubt = false;
    for (let tried = 1; ; tried++) {
      const outcome = await this.#attempt(this.#servers[at], method, path, call);
      if (!outcome.error) return outcome;
      if (doubt && call.doneIf?.includes(outcome.error.code))
        return { value: call.doneAs ?? { changed: true }, text: '' };
      if (outcome.away) this.#leave(at);
      // An answer that was lost is made up for once; what was not carried out is tried at all servers.
      const again =
        outcome.done === 'no' || (call.harmless && (outcome.done === 'maybe' || (outcome.done === 'unknown' && !lost)));
      if (!again || tried === tries) throw outcome.error;
      lost ||= outcome.done === 'unknown';
      doubt ||= outcome.doubtful;
      at = (at + 1) % this.#servers.length;
      if (this.#servers.length === 1) await sleep(Pauses.FIRST_MS, call.signal);
    }
  }

  /**
   * Calls go on at the next server, unless another call has moved on already.
   *
   * @param {number} at
   */
  #leave(at) {
    if (this.#current === at) this.#current = (at + 1) % this.#servers.length;
  }

  /**
   * @param {Server} server
   * @param {string} method
   * @param {string} path
   * @param {Call} call
   * @returns {Promise<Outcome>}
   */
  async #attempt(server, method, path, { body, headers, waitMs = 0, keepAnswer, signal }) {
    const all = {
      ...this.#headers,
      ...headers,
      ...(body === undefined ? { 'content-length': '0' } : jsonHeaders(body)),
    };
    const answerMs = this.#answerMs + waitMs;
    try {
      const ask = { method, path, body, headers: all, connectMs: this.#connectMs, answerMs, signal, keepAnswer };
      const answer = await server.send(ask);
      this.#skewMs = skew(answer.headers.date);
      return judge(answer);
    } catch (error) {
      if (!(error instanceof NoAnswer)) throw error;
      const unavailable = new LingerError('unavailable', error.message, { cause: error.cause });
      return { error: unavailable, done: error.sent ? 'unknown' : 'no', away: true, doubtful: error.sent };
    }
  }
}

/**
 * What came of one try: a value; or an error, with what is known of whether the call was carried out, whether it may
 * have been for all that (`doubtful`), and whether the server is one to turn away from.
 *
 * @typedef {{value: any, text: string, error?: undefined}
 *   | {error: LingerError, done: 'no' | 'maybe' | 'unknown' | 'refused', away: boolean, doubtful: boolean}} Outcome
 */

/**
 * @param {{status: number, text: string}} answer
 * @returns {Outcome}
 */
function judge({ status, text }) {
  const value = parse(text);
  if (status < 300 && value !== undefined) return { value, text };
  const { code, message, field } = value?.error ?? {};
  if (typeof code !== 'string') return strange(status);
  const error = new LingerError(code, message, { status, field });
  // A server on Redis may not know itself what became of a call: what the second try finds may be the first's.
  if (code === 'unavailable') return { error, done: 'maybe', away: true, doubtful: true };
  if (code === 'overloaded') return { error, done: 'no', away: false, doubtful: false };
  return { error, done: 'refused', away: false, doubtful: false };
}

/**
 * An answer that is not Linger's: from a proxy, say, which may have passed the request on.
 *
 * @param {number} status
 * @returns {Outcome}
 */
function strange(status) {
  const message = `answered ${status} with a body that is not Linger's; is there something else at this address?`;
  if (status >= 300 && status < 500) {
    return { error: new LingerError('invalid', message, { status }), done: 'refused', away: false, doubtful: false };
  }
  return { error: new LingerError('unavailable', message, { status }), done: 'unknown', away: true, doubtful: true };
}

/** @param {string} text */
function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * By how much the server's clock is ahead of ours. Its header has whole seconds and may be a second old: what can be
 * explained by that is no difference.
 *
 * @param {string | undefined} date
 */
function skew(date) {
  const ahead = Date.parse(date ?? '') - Date.now();
  return ahead > 0 || ahead < -2_000 ? ahead + 500 : 0;
}

/** @param {string} body */
function jsonHeaders(body) {
  return { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)) };
}

/** @param {{error?: any, job?: any}} item */
function readAdded({ error, job }) {
  if (error) return { error: new LingerError(error.code, error.message, { field: error.field }) };
  return { job: readJob(job, '') };
}

/** @param {{on_conflict?: string | null}} job */
function repeatable({ on_conflict }) {
  return on_conflict === 'keep' || on_conflict === 'replace';
}

/** @param {string} topic */
function topicPath(topic) {
  return `/v1/topics/${inPath(topic, 'topic')}`;
}

/**
 * @param {string} topic
 * @param {string} id
 */
function jobPath(topic, id) {
  return `${topicPath(topic)}/jobs/${inPath(id, 'id')}`;
}

/**
 * @param {string} name
 * @param {string} what
 */
function inPath(name, what) {
  // encodeURIComponent would make the name `undefined` of it.
  if (name === undefined || name === null) throw new TypeError(`${what} is missing`);
  return encodeURIComponent(name);
}

/** @param {Record<string, any>} parameters */
function query(parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined);
  const pairs = given.map(([name, value]) => [name, value instanceof Date ? value.toISOString() : String(value)]);
  return pairs.length === 0 ? '' : `?${new URLSearchParams(pairs)}`;
}

/**
 * @param {import('..').Length} value
 * @param {string} name
 */
function length(value, name) {
  const ms = milliseconds(value);
  if (ms === undefined) throw new TypeError(`${name} is \`${value}\`; give milliseconds, or text such as "10s"`);
  return ms;
}

module.exports = { Client, serverNow };
