'use strict';

const { inspect } = require('node:util');

/** A reader of pushes reads 64 KiB of an answer; an error's text must not make it longer. */
const ERROR_CHARS_MAX = 4_096;

/** Thrown by a handler: the job has failed, and is to be tried again after so long. */
class RetryIn extends Error {
  /**
   * @param {import('..').Length} delay
   * @param {unknown} [why] a text, or the error that was the cause
   */
  constructor(delay, why) {
    super(why === undefined ? `to be tried again in ${delay}` : errorText(why), { cause: why });
    this.name = 'RetryIn';
    this.delay = delay;
  }
}

/** Thrown by a handler: not yet. The job comes again at its next step, or after `delay`, and this is no failure. */
class Again extends Error {
  /** @param {import('..').Length} [delay] */
  constructor(delay) {
    super('not yet');
    this.name = 'Again';
    this.delay = delay;
  }
}

/**
 * What a handler has said by throwing, as a `fail` takes it.
 *
 * @param {unknown} thrown
 * @returns {import('..').FailOptions}
 */
function verdict(thrown) {
  if (thrown instanceof Again) return { again: true, retry_in: thrown.delay };
  if (thrown instanceof RetryIn) return { error: errorText(thrown), retry_in: thrown.delay };
  return { error: errorText(thrown) };
}

/** @param {unknown} thrown */
function errorText(thrown) {
  const text = thrown instanceof Error ? thrown.message || thrown.name : thrown;
  return (typeof text === 'string' ? text : inspect(text)).slice(0, ERROR_CHARS_MAX);
}

/**
 * Where errors are told unless the application has a better place.
 *
 * @param {unknown} error
 * @param {{topic: string, id: string}} [job]
 */
function tellConsole(error, job) {
  console.error(job ? `linger: job ${job.id} of ${job.topic}:` : 'linger:', error);
}

/**
 * Handlers by topic; asserts that there are some.
 *
 * @param {Record<string, Function>} handlers
 */
function byTopic(handlers) {
  const map = new Map(Object.entries(handlers ?? {}));
  if (map.size === 0) throw new TypeError('handlers is empty; give a function for one topic at least');
  for (const [topic, handler] of map) {
    if (typeof handler !== 'function') throw new TypeError(`the handler for \`${topic}\` is no function`);
  }
  return map;
}

module.exports = { RetryIn, Again, verdict, tellConsole, byTopic };
