'use strict';

const { serverNow } = require('./client.js');
const { LingerError } = require('./error.js');
const { byTopic, tellConsole, verdict, Again } = require('./outcome.js');
const { onSignals } = require('./signals.js');
const { milliseconds, sleep, Pauses } = require('./time.js');

const CONCURRENCY = 8;
const GRACE = '30s';
const WAIT = '30s';
/** However short a lease is, it is not touched more often. */
const TOUCH_PAUSE_MS = 50;
/** As many jobs as a server hands out in one answer. */
const POP_MAX = 1_000;

/** Answers that say that the job is no longer this attempt's. */
const LOST = ['lease_lost', 'not_found', 'wrong_state'];
/** Answers after which the same call may succeed a little later. */
const PASSING = ['unavailable', 'overloaded', 'rate_limited'];

/** Pops jobs and has them handled, several at a time, until it is stopped. */
class Worker {
  #client;
  #handlers;
  #options;
  #concurrency;
  #tell;
  /** @type {Set<Attempt>} */
  #attempts = new Set();
  #stopping = new AbortController();
  /** @type {Promise<void> | undefined} */
  #consuming;
  /** @type {Promise<void> | undefined} */
  #stopped;
  /** Ends the wait for a free hand. */
  #wake = () => {};
  #deafen = () => {};

  /**
   * @param {import('./client.js').Client} client
   * @param {import('..').WorkerOptions} options
   */
  constructor(client, { handlers, concurrency = CONCURRENCY, onError = tellConsole, ...options }) {
    if (!Number.isInteger(concurrency) || concurrency < 1)
      throw new TypeError('concurrency is a whole number of 1 or more');
    this.#client = client;
    this.#handlers = byTopic(handlers);
    this.#concurrency = concurrency;
    this.#tell = onError;
    this.#options = options;
  }

  start() {
    if (this.#consuming) throw new Error('this worker was started before; make another');
    if (this.#options.signals) this.#deafen = onSignals(() => this.stop());
    this.#consuming = this.#consume();
    return this;
  }

  /** @param {{grace?: import('..').Length}} [options] */
  stop({ grace = this.#options.grace ?? GRACE } = {}) {
    this.#stopped ??= this.#stop(milliseconds(grace) ?? 0);
    return this.#stopped;
  }

  /** @param {number} graceMs */
  async #stop(graceMs) {
    this.#stopping.abort();
    this.#wake();
    const patience = new AbortController();
    const over = sleep(graceMs, patience.signal);
    await this.#consuming;
    await Promise.race([Promise.all([...this.#attempts].map((attempt) => attempt.ended)), over]);
    patience.abort();
    await Promise.all([...this.#attempts].map((attempt) => attempt.giveBack()));
    this.#deafen();
  }

  async #consume() {
    const pauses = new Pauses();
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        const jobs = await this.#pop();
        pauses.reset();
        // They came while it was told to stop: nobody has begun with them.
        if (signal.aborted) return await this.#release(jobs);
        jobs.forEach((job) => this.#attempt(job));
        if (this.#attempts.size >= this.#concurrency) await this.#freeHand();
      } catch (error) {
        if (signal.aborted) return;
        this.#tell(error);
        await sleep(pauses.next(), signal);
      }
    }
  }

  /** @returns {Promise<import('..').PoppedJob[]>} */
  #pop() {
    const { ttr, wait = WAIT } = this.#options;
    const max = Math.min(this.#concurrency - this.#attempts.size, POP_MAX);
    return this.#client.pop([...this.#handlers.keys()], { max, wait, ttr, signal: this.#stopping.signal });
  }

  /**
   * Resolves when an attempt has ended, or the worker is to stop. Each wait has a promise of its own: a race with one
   * that lives on would leave something behind in it every time.
   *
   * @returns {Promise<void>}
   */
  #freeHand() {
    return new Promise((resolve) => (this.#wake = resolve));
  }

  /** @param {import('..').PoppedJob} job */
  #attempt(job) {
    const handler = /** @type {Function} */ (this.#handlers.get(job.topic));
    const attempt = new Attempt(this.#client, job, handler, this.#options.ttr, this.#tell);
    this.#attempts.add(attempt);
    attempt.ended.then(() => {
      this.#attempts.delete(attempt);
      this.#wake();
    });
  }

  /** @param {import('..').PoppedJob[]} jobs */
  async #release(jobs) {
    await Promise.all(jobs.map((job) => this.#client.release(job).catch((error) => this.#tell(error, job))));
  }
}

/** One job in one handler, with its lease kept for as long as that works. */
class Attempt {
  #client;
  #job;
  #ttr;
  #tell;
  #leaseMs;
  /** When the lease runs out, on this process's own clock, which nobody sets. */
  #until;
  /** There is nothing to keep any more: the handler has ended, or the job is gone. */
  #over = new AbortController();
  /** The job is no longer ours, which the handler is told. */
  #gone = new AbortController();

  /**
   * @param {import('./client.js').Client} client
   * @param {import('..').PoppedJob} job
   * @param {Function} handler
   * @param {import('..').Length | undefined} ttr
   * @param {(error: unknown, job: import('..').PoppedJob) => void} tell
   */
  constructor(client, job, handler, ttr, tell) {
    this.#client = client;
    this.#job = job;
    this.#ttr = ttr;
    this.#tell = (/** @type {unknown} */ error) => tell(error, job);
    this.#leaseMs = milliseconds(ttr ?? job.ttr) ?? guessLease(client, job);
    this.#until = performance.now() + this.#leaseMs;
    /** Settles when the handler has ended and its outcome was told; never rejects. */
    this.ended = this.#run(handler);
  }

  /** Lets go of a job whose handler has not ended: somebody else may have it. */
  async giveBack() {
    this.#lose(new LingerError('lease_lost', 'the worker has stopped, and given the job back'));
    await this.#client.release(this.#job).catch(this.#tell);
  }

  /** @param {Function} handler */
  async #run(handler) {
    const kept = this.#keep();
    const failure = await this.#handle(handler);
    this.#over.abort();
    await kept;
    await this.#settle(failure);
  }

  /**
   * @param {Function} handler
   * @returns {Promise<import('..').FailOptions | undefined>} undefined if all went well
   */
  async #handle(handler) {
    try {
      await handler(this.#job, { signal: this.#gone.signal });
      return undefined;
    } catch (thrown) {
      if (!(thrown instanceof Again)) this.#tell(thrown);
      return verdict(thrown);
    }
  }

  /** Touches the job whenever half of its lease is over. */
  async #keep() {
    const { signal } = this.#over;
    for (;;) {
      await sleep(Math.max((this.#until - performance.now()) / 2, TOUCH_PAUSE_MS), signal);
      if (signal.aborted) return;
      await this.#touch();
    }
  }

  async #touch() {
    const { signal } = this.#over;
    const asked = performance.now();
    // A server that is away cannot say so, but a lease that has run out is lost all the same.
    const late = setTimeout(() => {
      const error = new LingerError('lease_lost', 'the lease is over, and no touch was answered in time');
      this.#lose(error);
      this.#tell(error);
    }, this.#until - asked);
    try {
      await this.#client.touch(this.#job, { ttr: this.#ttr, signal });
      this.#until = asked + this.#leaseMs;
    } catch (error) {
      if (signal.aborted) return;
      this.#tell(error);
      if (LingerError.is(error, ...LOST)) this.#lose(error);
    } finally {
      clearTimeout(late);
    }
  }

  /** @param {LingerError} reason */
  #lose(reason) {
    this.#gone.abort(reason);
    this.#over.abort();
  }

  /**
   * Tells what became of the job, until the server has heard it or the lease is over. Of a job that is gone nothing is
   * told: the signal keeps every call from being made.
   *
   * @param {import('..').FailOptions | undefined} failure
   */
  async #settle(failure) {
    const { signal } = this.#gone;
    const pauses = new Pauses();
    for (;;) {
      try {
        await (failure
          ? this.#client.fail(this.#job, { ...failure, signal })
          : this.#client.finish(this.#job, { signal }));
        return;
      } catch (error) {
        if (signal.aborted) return;
        this.#tell(error);
        if (!LingerError.is(error, ...PASSING) || performance.now() > this.#until) return;
        await sleep(pauses.next(), signal);
      }
    }
  }
}

/**
 * How long a lease is of which nobody has said it. By clocks that differ it may seem to be over, so that it is taken
 * for long enough to be touched once.
 *
 * @param {import('./client.js').Client} client
 * @param {import('..').PoppedJob} job
 */
function guessLease(client, job) {
  return Math.max(job.reserved_until.getTime() - client[serverNow](), 4 * TOUCH_PAUSE_MS);
}

module.exports = { Worker };
