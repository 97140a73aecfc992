'use strict';

const http = require('node:http');
const https = require('node:https');
const { urlToHttpOptions } = require('node:url');

/** Idle connections are given up before the server does so (after 5 minutes): none is used that it has closed. */
const IDLE_MS = 60_000;

/** A request that got no answer. `sent` says whether the server may have had it. */
class NoAnswer extends Error {
  /**
   * @param {string} message
   * @param {boolean} sent
   * @param {unknown} [cause]
   */
  constructor(message, sent, cause) {
    super(message, { cause });
    this.sent = sent;
  }
}

/**
 * @typedef {object} Ask
 * @property {string} method
 * @property {string} path
 * @property {Record<string, string>} headers
 * @property {string} [body]
 * @property {number} connectMs how long a connection may take
 * @property {number} answerMs how long the answer may take from then on
 * @property {AbortSignal} [signal]
 * @property {boolean} [keepAnswer] an answer that has begun is read to its end, signal or not
 */

/** One server, and the connections to it that are kept. */
class Server {
  #options;
  #agent;
  #module;

  /**
   * @param {string} address
   * @param {import('node:tls').ConnectionOptions} tls
   */
  constructor(address, tls) {
    const url = parseAddress(address);
    this.address = url.origin;
    this.prefix = url.pathname.replace(/\/$/, '');
    this.#module = url.protocol === 'https:' ? https : http;
    this.#agent = new this.#module.Agent({ keepAlive: true, timeout: IDLE_MS, ...tls });
    const { hostname, port } = urlToHttpOptions(url);
    this.#options = { hostname, port };
  }

  /**
   * Makes one request. Rejects with NoAnswer, or with the signal's reason.
   *
   * @param {Ask} ask
   * @returns {Promise<{status: number, headers: http.IncomingHttpHeaders, text: string}>}
   */
  send({ method, path, headers, body, connectMs, answerMs, signal, keepAnswer }) {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const options = { ...this.#options, agent: this.#agent, method, path: this.prefix + path, headers };
      const request = this.#module.request(options);
      let sent = false;
      /** @type {NodeJS.Timeout | undefined} */
      let timer;

      const settle = () => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', hangUp);
      };
      const fail = (/** @type {unknown} */ error) => {
        settle();
        reject(error);
        request.destroy();
      };
      const lose = (/** @type {Error} */ cause) => fail(new NoAnswer(`${this.address}: ${reason(cause)}`, sent, cause));
      const hangUp = () => fail(signal?.reason);
      const allow = (/** @type {number} */ ms, /** @type {string} */ what) => {
        clearTimeout(timer);
        timer = setTimeout(() => lose(new Error(`${what} within ${ms / 1000} s`)), ms);
      };
      const connected = () => {
        sent = true;
        allow(answerMs, 'no answer');
      };

      signal?.addEventListener('abort', hangUp);
      request.on('error', lose);
      request.on('socket', (socket) => {
        if (!socket.connecting) return connected();
        allow(connectMs, 'no connection');
        socket.once(this.#module === https ? 'secureConnect' : 'connect', connected);
      });
      request.on('response', (response) => {
        if (keepAnswer) signal?.removeEventListener('abort', hangUp);
        /** @type {Buffer[]} */
        const chunks = [];
        response.on('data', (chunk) => chunks.push(chunk));
        response.on('error', lose);
        response.on('end', () => {
          settle();
          const { statusCode = 0, headers } = response;
          resolve({ status: statusCode, headers, text: Buffer.concat(chunks).toString() });
        });
      });
      request.end(body);
    });
  }

  /** Closes the connections that are kept. */
  close() {
    this.#agent.destroy();
  }
}

/** @param {string} address */
function parseAddress(address) {
  if (!/^https?:\/\/./.test(address)) {
    throw new TypeError(`server \`${address}\` is no address; give one such as http://127.0.0.1:7300`);
  }
  return new URL(address);
}

/**
 * An error's text; one of several addresses of a host that all refused has none of its own.
 *
 * @param {any} error
 */
function reason(error) {
  return error.message || error.errors?.[0]?.message || error.code || 'no answer';
}

module.exports = { Server, NoAnswer };
