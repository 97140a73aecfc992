'use strict';

const { onWire, readMoments } = require('./time.js');

/**
 * A job as the server told it: its fields by the names of the API, moments as Date, and its body.
 *
 * The body is the value that was given: anything that JSON can hold, or a Buffer if it was bytes.
 */
class Job {
  #text;

  /**
   * @param {Record<string, any>} fields
   * @param {string} [bodySource] the body as it stood in the answer
   */
  constructor(fields, bodySource) {
    const { body_base64: base64, ...rest } = fields;
    Object.assign(this, readMoments(rest));
    if (base64 !== undefined) this.body = Buffer.from(base64, 'base64');
    this.#text = typeof this.body === 'string' ? this.body : bodySource;
  }

  /** @type {any} */
  body;

  /**
   * The body as it is kept, to the byte: JSON that was never parsed, so that numbers of any size are exact; a string
   * is its text. Undefined for bytes.
   */
  get text() {
    return this.#text;
  }

  /** As the API writes it. */
  toJSON() {
    const { body, ...fields } = this;
    return Buffer.isBuffer(body) ? { ...fields, body_base64: body.toString('base64') } : { ...fields, body };
  }
}

/** A body that is JSON already: it is sent as it is, not parsed and written anew. */
class RawJson {
  /** @param {string} text */
  constructor(text) {
    // It is put into the request as it is: text with more than one value in it would bring fields of its own.
    JSON.parse(text);
    this.text = text;
  }
}

/**
 * The JSON of a job to add, or of changes to one.
 *
 * @param {Record<string, any>} fields
 */
function encodeJob(fields) {
  if (typeof fields !== 'object' || fields === null) return JSON.stringify(fields ?? null);
  const { body, ...wire } = onWire(fields);
  if (body instanceof RawJson) {
    const rest = JSON.stringify(wire).slice(0, -1);
    return `${rest}${rest === '{' ? '' : ','}"body":${body.text}}`;
  }
  const bytes = asBytes(body);
  return JSON.stringify(bytes ? { ...wire, body_base64: bytes.toString('base64') } : { ...wire, body });
}

/** @param {unknown} body */
function asBytes(body) {
  if (ArrayBuffer.isView(body)) return Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  return body instanceof ArrayBuffer ? Buffer.from(body) : undefined;
}

/**
 * The job of an answer that is one.
 *
 * @param {any} fields
 * @param {string} source the answer's text
 * @returns {any}
 */
function readJob(fields, source) {
  return new Job(fields, bodySources(source, 1)[0]);
}

/**
 * The jobs of an answer `{"jobs":[…]}`.
 *
 * @param {any[]} list
 * @param {string} source the answer's text
 * @returns {any[]}
 */
function readJobs(list, source) {
  const bodies = bodySources(source, 3);
  return list.map((fields, index) => new Job(fields, bodies[index]));
}

/**
 * The text of `body` in each object at this depth of valid JSON; undefined for objects without one.
 *
 * JSON.parse tells no positions, and a body that went through it may have lost digits.
 *
 * @param {string} json
 * @param {number} depth
 */
function bodySources(json, depth) {
  /** @type {(string | undefined)[]} */
  const sources = [];
  let level = 0;
  let from = -1;
  const close = (/** @type {number} */ at) => {
    if (from >= 0) sources[sources.length - 1] = json.slice(from, at).trim();
    from = -1;
  };
  for (let at = 0; at < json.length; at++) {
    const char = json[at];
    if (char === '"') {
      const end = stringEnd(json, at);
      if (level === depth && from < 0) from = bodyValue(json, at, end);
      at = from > end ? from - 1 : end - 1;
    } else if (char === '{' || char === '[') {
      level++;
      if (char === '{' && level === depth) sources.push(undefined);
    } else if (char === '}' || char === ']') {
      if (level === depth) close(at);
      level--;
    } else if (char === ',' && level === depth) {
      close(at);
    }
  }
  return sources;
}

const COLON = /\s*:\s*/y;

/**
 * Where the value begins, if the string is the key of a body, else -1.
 *
 * @param {string} json
 * @param {number} start
 * @param {number} end
 */
function bodyValue(json, start, end) {
  COLON.lastIndex = end;
  return json.slice(start, end) === '"body"' && COLON.test(json) ? COLON.lastIndex : -1;
}

/**
 * Where a string ends that starts here, its quotes included.
 *
 * @param {string} json
 * @param {number} start
 */
function stringEnd(json, start) {
  for (let at = json.indexOf('"', start + 1); ; at = json.indexOf('"', at + 1)) {
    let slashes = 0;
    while (json[at - 1 - slashes] === '\\') slashes++;
    if (slashes % 2 === 0) return at + 1;
  }
}

module.exports = { Job, RawJson, encodeJob, readJob, readJobs };
