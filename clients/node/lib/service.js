'use strict';

const http = require('node:http');
const { once } = require('node:events');
const { LingerError } = require('./error.js');
const { onSignals } = require('./signals.js');
const { lengthOnWire, milliseconds, sleep, Pauses } = require('./time.js');
const { Webhook } = require('./webhook.js');

const GRACE = '30s';
/** Linger keeps connections for 30 s: who closes one before may do so under its next call. */
const KEEP_ALIVE_MS = 300_000;
/** How often a server is asked, while this stops, whether it still has a call under way here. */
const UNDER_WAY_PAUSE_MS = 100;

/** Answers that pass by themselves: who registers tries again. */
const PASSING = ['unavailable', 'overloaded', 'rate_limited'];

/** An instance of an application that the server calls with its jobs: those with the target `worker:APP`. */
class Service extends Webhook {
  #client;
  #options;
  #topics;
  /** @type {http.Server | undefined} */
  #server;
  #url;
  /** @type {string | undefined} */
  #id;
  #leaseMs = 0;
  #stopping = new AbortController();
  /** @type {Promise<void> | undefined} */
  #starting;
  /** @type {Promise<void> | undefined} */
  #beating;
  /** @type {Promise<void> | undefined} */
  #stopped;
  #deafen = () => {};

  /**
   * @param {import('./client.js').Client} client
   * @param {import('..').ServiceOptions} options
   */
  constructor(client, options) {
    // Leaving secrets out is a decision; naming them and having none is a mistake, and is refused.
    super({ ...options, secrets: 'secrets' in options ? options.secrets : null });
    if (!options.url && !options.listen) throw new TypeError('url is missing: where the server finds this service');
    this.#client = client;
    this.#options = options;
    this.#topics = Object.keys(options.handlers);
    this.#url = options.url;
  }

  get id() {
    return this.#id;
  }

  get url() {
    return this.#url;
  }

  async start() {
    this.#starting = this.#start();
    await this.#starting;
    return this;
  }

  async #start() {
    if (this.#options.listen) await this.#listen(this.#options.listen);
    try {
      await this.#registerFirst();
    } catch (error) {
      this.#server?.close();
      throw error;
    }
    if (this.#options.signals) this.#deafen = onSignals(() => this.stop());
    this.#beating = this.#beat();
  }

  /** @param {{grace?: import('..').Length}} [options] */
  stop({ grace = this.#options.grace ?? GRACE } = {}) {
    this.#stopped ??= this.#stop(milliseconds(grace) ?? 0);
    return this.#stopped;
  }

  /** @param {number} graceMs */
  async #stop(graceMs) {
    this.#stopping.abort();
    // A registration under way is waited for, so that it can be taken back; one that failed is told to who started it.
    await this.#starting?.catch(() => {});
    await this.#beating;
    if (this.#id !== undefined) await this.#leave(graceMs);
    await this.#close();
    this.#deafen();
  }

  /** @param {number} graceMs */
  async #leave(graceMs) {
    const patience = new AbortController();
    const over = sleep(graceMs, patience.signal).then(() => patience.abort());
    await Promise.race([this.#drain(patience.signal), over]);
    patience.abort();
    await this.#deregister();
  }

  /** @param {{port?: number, host?: string}} listen */
  async #listen({ port = 0, host = '127.0.0.1' }) {
    this.#server = http.createServer(this.express());
    this.#server.keepAliveTimeout = KEEP_ALIVE_MS;
    this.#server.listen(port, host);
    await once(this.#server, 'listening');
    const address = /** @type {import('node:net').AddressInfo} */ (this.#server.address());
    const name = address.family === 'IPv6' ? `[${address.address}]` : address.address;
    this.#url ??= `http://${name}:${address.port}/`;
  }

  async #close() {
    if (!this.#server) return;
    const closed = once(this.#server, 'close');
    this.#server.close();
    // Calls have ended, or have had their time: what is left are connections that are kept for more.
    this.#server.closeAllConnections();
    await closed;
  }

  async #registerFirst() {
    const pauses = new Pauses();
    while (!this.#stopping.signal.aborted) {
      try {
        return await this.#register();
      } catch (error) {
        if (!LingerError.is(error, ...PASSING)) throw error;
        this.tell(error);
        await sleep(pauses.next(), this.#stopping.signal);
      }
    }
  }

  async #register() {
    const { app, lease, id = this.#id } = this.#options;
    const body = { id, app, topics: this.#topics, url: this.#url, lease: lengthOnWire(lease) };
    // Whoever registers twice at one address is the same worker.
    const worker = await this.#client.request('POST', '/v1/workers', { body, harmless: true });
    this.#id = worker.id;
    this.#leaseMs = milliseconds(worker.lease) ?? 0;
  }

  async #beat() {
    const { signal } = this.#stopping;
    const pauses = new Pauses();
    let pause = this.#leaseMs / 3;
    for (;;) {
      await sleep(pause, signal);
      if (signal.aborted) return;
      try {
        await this.#heartbeat();
        pauses.reset();
        pause = this.#leaseMs / 3;
      } catch (error) {
        this.tell(error);
        pause = Math.min(pauses.next(), this.#leaseMs / 3);
      }
    }
  }

  async #heartbeat() {
    try {
      await this.#client.request('PUT', `${this.#path()}/heartbeat`, { harmless: true });
    } catch (error) {
      if (!LingerError.is(error, 'not_found')) throw error;
      await this.#register();
    }
  }

  /** @param {AbortSignal} signal */
  async #drain(signal) {
    try {
      await this.#client.request('POST', `${this.#path()}/drain`, { harmless: true, signal });
      // A call may be on its way here, so the server is asked besides what is known here.
      for (let underWay = 1; underWay > 0 && !signal.aborted;) {
        await this.idle();
        const worker = await this.#client.request('GET', this.#path(), { signal });
        underWay = worker.under_way;
        if (underWay > 0) await sleep(UNDER_WAY_PAUSE_MS, signal);
      }
    } catch (error) {
      if (!signal.aborted && !LingerError.is(error, 'not_found')) this.tell(error);
      await this.idle();
    }
  }

  async #deregister() {
    try {
      await this.#client.request('DELETE', this.#path(), { harmless: true });
    } catch (error) {
      if (!LingerError.is(error, 'not_found')) this.tell(error);
    }
  }

  #path() {
    return `/v1/workers/${encodeURIComponent(/** @type {string} */ (this.#id))}`;
  }
}

module.exports = { Service };
