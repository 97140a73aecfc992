'use strict';

const { createHmac, createPublicKey, timingSafeEqual, verify: verifySignature } = require('node:crypto');
const { LingerError } = require('./error.js');
const { byTopic, tellConsole, verdict, Again } = require('./outcome.js');
const { lengthOnWire } = require('./time.js');

const TOLERANCE_S = 5 * 60;
const BODY_BYTES_MAX = 16 * 1024 * 1024;

/** A job that was pushed here. */
class PushedJob {
  /**
   * @param {Record<string, string>} given what the headers say
   * @param {Buffer} bytes
   */
  constructor({ topic, id, attempt, due, lease, webhookId, contentType }, bytes) {
    this.topic = topic;
    this.id = id;
    this.attempt = Number(attempt);
    this.due = new Date(due);
    this.lease = lease;
    this.webhookId = webhookId;
    this.bytes = bytes;
    this.body = readBody(contentType, bytes);
  }

  /** The body as it came, as text. */
  get text() {
    return this.bytes.toString();
  }
}

/**
 * Checks the signature of a delivery and gives back its job.
 *
 * @param {string | string[]} secrets
 * @param {import('..').HeadersLike} headers
 * @param {string | Uint8Array} body as it came, to the byte
 * @param {{now?: Date}} [options]
 */
function verify(secrets, headers, body, { now = new Date() } = {}) {
  return verifyWith(readSecrets(secrets), headers, asBuffer(body), now);
}

/**
 * @param {Check[]} checks
 * @param {import('..').HeadersLike} headers
 * @param {Buffer} body
 * @param {Date} now
 */
function verifyWith(checks, headers, body, now) {
  const [id, timestamp, signatures] = ['id', 'timestamp', 'signature'].map((name) => {
    const value = header(headers, `webhook-${name}`);
    if (!value) throw new LingerError('unauthorized', `the header webhook-${name} is missing`);
    return value;
  });
  const age = now.getTime() / 1000 - (/^\d{1,12}$/.test(timestamp) ? Number(timestamp) : NaN);
  if (!(Math.abs(age) <= TOLERANCE_S)) {
    throw new LingerError('unauthorized', `the delivery is of ${timestamp}, more than 5 minutes from now`);
  }
  const signed = Buffer.concat([Buffer.from(`${id}.${timestamp}.`), body]);
  const given = signatures.split(' ');
  if (!checks.some((check) => given.some((signature) => check(signature, signed)))) {
    throw new LingerError('unauthorized', 'no signature fits a secret');
  }
  return readPush(headers, body);
}

/**
 * @param {import('..').HeadersLike} headers
 * @param {Buffer} body
 */
function readPush(headers, body) {
  const given = {
    topic: decode(header(headers, 'linger-topic'), 'linger-topic'),
    id: decode(header(headers, 'linger-job'), 'linger-job'),
    attempt: header(headers, 'linger-attempt') ?? '',
    due: header(headers, 'linger-due') ?? '',
    lease: header(headers, 'linger-lease') ?? '',
    webhookId: header(headers, 'webhook-id') ?? '',
    contentType: header(headers, 'content-type') ?? '',
  };
  return new PushedJob(given, body);
}

/**
 * @param {string | undefined} value
 * @param {string} name
 */
function decode(value, name) {
  try {
    if (value) return decodeURIComponent(value);
  } catch {
    // Told below, as one that is missing.
  }
  throw new LingerError('invalid', `the header ${name} is missing or not percent-encoded`, { field: name });
}

/**
 * @param {string} contentType
 * @param {Buffer} bytes
 */
function readBody(contentType, bytes) {
  const type = contentType.split(';')[0].trim().toLowerCase();
  if (type === 'application/json' || type.endsWith('+json')) {
    try {
      return JSON.parse(bytes.toString());
    } catch {
      // Whoever added the job called it JSON; the handler gets what there is.
      return bytes.toString();
    }
  }
  return type.startsWith('text/') ? bytes.toString() : bytes;
}

/**
 * Whether a signature, such as `v1,K5oZ…`, is this secret's for what was signed.
 *
 * @typedef {(signature: string, signed: Buffer) => boolean} Check
 */

/**
 * @param {string | string[] | undefined} secrets
 * @returns {Check[]}
 */
function readSecrets(secrets) {
  const list = (Array.isArray(secrets) ? secrets : [secrets ?? '']).filter(Boolean);
  // An empty list would come of a setting that is missing, and must not switch the check off.
  if (list.length === 0) throw new TypeError('there is no secret; give the whsec_… or whpk_… of the topic');
  return list.map(readSecret);
}

/**
 * @param {string} secret
 * @returns {Check}
 */
function readSecret(secret) {
  if (secret.startsWith('whsec_')) return hmacCheck(readKey(secret.slice(6)));
  if (secret.startsWith('whpk_')) return ed25519Check(readKey(secret.slice(5)));
  throw new TypeError('a secret begins with whsec_, or with whpk_ if it is a public key');
}

/** @param {string} text */
function readKey(text) {
  const key = Buffer.from(text, 'base64');
  // Node skips what is no base64; a key of what is left, or of nothing, might be anybody's.
  if (key.length === 0 || key.toString('base64') !== text) {
    throw new TypeError('what follows whsec_ or whpk_ in a secret is a key in base64, and this is none');
  }
  return key;
}

/**
 * @param {Buffer} key
 * @returns {Check}
 */
function hmacCheck(key) {
  return (signature, signed) => {
    if (!signature.startsWith('v1,')) return false;
    const given = Buffer.from(signature.slice(3), 'base64');
    const right = createHmac('sha256', key).update(signed).digest();
    return given.length === right.length && timingSafeEqual(given, right);
  };
}

/**
 * @param {Buffer} key
 * @returns {Check}
 */
function ed25519Check(key) {
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: key.toString('base64url') };
  const publicKey = createPublicKey({ key: jwk, format: 'jwk' });
  return (signature, signed) =>
    signature.startsWith('v1a,') && verifySignature(null, signed, publicKey, Buffer.from(signature.slice(4), 'base64'));
}

/**
 * A header's value, of Node's headers, of those of fetch, or of any object.
 *
 * @param {any} headers
 * @param {string} name in small letters
 * @returns {string | undefined}
 */
function header(headers, name) {
  if (typeof headers.get === 'function') return headers.get(name) ?? undefined;
  const key = name in headers ? name : Object.keys(headers).find((key) => key.toLowerCase() === name);
  const value = key === undefined ? undefined : headers[key];
  return Array.isArray(value) ? value[0] : value;
}

/** @param {string | Uint8Array} body */
function asBuffer(body) {
  return typeof body === 'string' ? Buffer.from(body) : Buffer.from(body.buffer, body.byteOffset, body.byteLength);
}

/** Receives what a server pushes, and has it handled by topic. */
class Webhook {
  #checks;
  #handlers;
  #bodyBytesMax;
  /** @protected */
  tell;
  /** @type {Set<import('node:http').ServerResponse>} */
  #calls = new Set();

  /**
   * Secrets that are null are none on purpose.
   *
   * @param {Omit<import('..').WebhookOptions, 'secrets'> & {secrets?: string | string[] | null}} options
   */
  constructor({ secrets, handlers, bodyBytesMax = BODY_BYTES_MAX, onError = tellConsole }) {
    this.#checks = secrets === null ? null : readSecrets(secrets);
    this.#handlers = byTopic(handlers);
    this.#bodyBytesMax = bodyBytesMax;
    this.tell = onError;
  }

  express() {
    return async (/** @type {any} */ request, /** @type {import('node:http').ServerResponse} */ response) => {
      const { status, body } = await this.#answerTo(request, response);
      const text = body === undefined ? undefined : JSON.stringify(body);
      response.writeHead(status, text === undefined ? {} : { 'content-type': 'application/json' }).end(text);
    };
  }

  fastify() {
    return async (/** @type {any} */ instance, { path = '/' } = {}) => {
      // The body is wanted as it came, whatever it is; this holds for the plugin's own route alone.
      instance.removeAllContentTypeParsers();
      const asItIs = (/** @type {any} */ _request, /** @type {Buffer} */ body, /** @type {Function} */ done) =>
        done(null, body);
      instance.addContentTypeParser('*', { parseAs: 'buffer', bodyLimit: this.#bodyBytesMax }, asItIs);
      instance.post(path, async (/** @type {any} */ request, /** @type {any} */ reply) => {
        const signal = this.#follow(reply.raw);
        const { status, body } = await this.answer(request.headers, request.body ?? Buffer.alloc(0), { signal });
        return reply.code(status).send(body);
      });
    };
  }

  /**
   * @param {import('..').HeadersLike} headers
   * @param {string | Uint8Array} body
   * @param {{signal?: AbortSignal}} [options]
   * @returns {Promise<import('..').Answer>}
   */
  async answer(headers, body, { signal = new AbortController().signal } = {}) {
    let job;
    try {
      const bytes = asBuffer(body);
      job = this.#checks ? verifyWith(this.#checks, headers, bytes, new Date()) : readPush(headers, bytes);
    } catch (error) {
      this.tell(error);
      return refusal(LingerError.is(error, 'unauthorized') ? 401 : 400, error);
    }
    const handler = this.#handlers.get(job.topic);
    if (!handler) return refusal(404, new LingerError('not_found', `there is no handler for \`${job.topic}\``));
    return this.#handle(handler, job, signal);
  }

  /**
   * Resolves when no call is under way.
   *
   * @protected
   */
  async idle() {
    await Promise.all([...this.#calls].map((response) => new Promise((resolve) => response.once('close', resolve))));
  }

  /**
   * @param {Function} handler
   * @param {PushedJob} job
   * @param {AbortSignal} signal
   */
  async #handle(handler, job, signal) {
    try {
      await handler(job, { signal });
      return { status: 204 };
    } catch (thrown) {
      if (!(thrown instanceof Again)) this.tell(thrown, job);
      const { again, error, retry_in } = verdict(thrown);
      return { status: 200, body: { outcome: again ? 'again' : 'failed', error, retry_in: lengthOnWire(retry_in) } };
    }
  }

  /**
   * @param {any} request
   * @param {import('node:http').ServerResponse} response
   * @returns {Promise<import('..').Answer>}
   */
  async #answerTo(request, response) {
    const signal = this.#follow(response);
    if (request.method !== 'POST') return refusal(405, new LingerError('invalid', 'only POST is understood here'));
    try {
      const body = await rawBody(request, this.#bodyBytesMax);
      if (body === undefined)
        return refusal(413, new LingerError('too_large', `a body may have ${this.#bodyBytesMax} bytes`));
      return await this.answer(request.headers, body, { signal });
    } catch (error) {
      this.tell(error);
      return refusal(500, error);
    }
  }

  /**
   * Counts a call as under way until it is answered; the signal ends with a caller who hangs up before.
   *
   * @param {import('node:http').ServerResponse} response
   */
  #follow(response) {
    const hungUp = new AbortController();
    this.#calls.add(response);
    response.once('close', () => {
      this.#calls.delete(response);
      if (!response.writableFinished) hungUp.abort(new LingerError('lease_lost', 'the caller has hung up'));
    });
    return hungUp.signal;
  }
}

/**
 * The body as it came; undefined if it is too large.
 *
 * @param {any} request
 * @param {number} bytesMax
 * @returns {Promise<Buffer | undefined>}
 */
async function rawBody(request, bytesMax) {
  const kept = [request.rawBody, request.body].find(Buffer.isBuffer);
  if (kept) return kept;
  if (request.readableEnded) {
    const remedy = 'put this route before express.json(), or use express.raw()';
    throw new Error(`the body was read and parsed before it came here; ${remedy}`);
  }
  const chunks = [];
  let bytes = 0;
  for await (const chunk of request) {
    bytes += chunk.length;
    if (bytes > bytesMax) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/**
 * @param {number} status
 * @param {unknown} error
 * @returns {import('..').Answer}
 */
function refusal(status, error) {
  return { status, body: { error: error instanceof LingerError ? error : { message: String(error) } } };
}

module.exports = { Webhook, PushedJob, verify };
