'use strict';

const { setTimeout: delay } = require('node:timers/promises');

/** @type {Record<string, number>} */
const UNIT_MS = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1_000, ms: 1 };

/** Fields of requests that are lengths of time. */
const LENGTHS = ['delay', 'ttr', 'wait', 'retry_in', 'retain', 'retain_dead', 'timeout', 'for'];

/** Moments in answers. */
const MOMENTS = ['due', 'created', 'reserved_until', 'at'];

/**
 * A length of time as the server takes it: milliseconds become text, all else is left to the server to judge.
 *
 * @param {unknown} length
 */
function lengthOnWire(length) {
  // Not more digits than the server reads: `Math.random() * 5000` is a fair delay.
  return typeof length === 'number' ? `${Number(length.toFixed(3))}ms` : length;
}

/**
 * The fields of a request, with lengths of time as the server takes them.
 *
 * @param {Record<string, any>} fields
 */
function onWire(fields) {
  const wire = { ...fields };
  for (const name of LENGTHS) {
    if (name in wire) wire[name] = lengthOnWire(wire[name]);
  }
  if (wire.retry) wire.retry = retryOnWire(wire.retry);
  if (wire.repeat) wire.repeat = { ...wire.repeat, every: lengthOnWire(wire.repeat.every) };
  return wire;
}

/** @param {Record<string, any>} retry */
function retryOnWire(retry) {
  const wire = { ...retry };
  if (Array.isArray(wire.ladder)) wire.ladder = wire.ladder.map(lengthOnWire);
  if (wire.backoff) {
    const { base, max } = wire.backoff;
    wire.backoff = { ...wire.backoff, base: lengthOnWire(base), max: lengthOnWire(max) };
  }
  return wire;
}

/**
 * How many milliseconds a length of time has; undefined for what is none.
 *
 * @param {unknown} length
 * @returns {number | undefined}
 */
function milliseconds(length) {
  if (typeof length === 'number') return length;
  if (typeof length !== 'string') return undefined;
  if (/^\d+(\.\d+)?$/.test(length)) return Number(length) * UNIT_MS.s;
  const parts = [...length.matchAll(/(\d+(?:\.\d+)?)(ms|[dhms])/g)];
  if (parts.length === 0) return undefined;
  return parts.reduce((sum, [, count, unit]) => sum + Number(count) * UNIT_MS[unit], 0);
}

/**
 * Makes a Date of each moment in an answer.
 *
 * @param {Record<string, any>} fields
 */
function readMoments(fields) {
  for (const name of MOMENTS) {
    if (typeof fields[name] === 'string') fields[name] = new Date(fields[name]);
  }
  return fields;
}

/**
 * Waits so long, or until the signal is aborted.
 *
 * @param {number} ms
 * @param {AbortSignal} [signal]
 */
async function sleep(ms, signal) {
  await delay(ms, undefined, { signal }).catch(() => {});
}

/** Growing pauses between tries, while a server is away. */
class Pauses {
  static FIRST_MS = 100;
  static LONGEST_MS = 5_000;
  #next = Pauses.FIRST_MS;

  /** How long to wait before the next try. */
  next() {
    const pause = this.#next;
    this.#next = Math.min(pause * 2, Pauses.LONGEST_MS);
    return pause;
  }

  /** Something went well: the next pause is short again. */
  reset() {
    this.#next = Pauses.FIRST_MS;
  }
}

module.exports = { lengthOnWire, onWire, milliseconds, readMoments, sleep, Pauses };
