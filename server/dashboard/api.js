// Calls of the HTTP API, and whether the server is there.

import { parse } from './json.js';

/** How long an answer may take before the server counts as away. */
const PATIENCE_MS = 15_000;
/** Waits between attempts to reach a server that is away; the last is repeated. */
const PAUSES_MS = [500, 1_000, 2_000, 4_000, 8_000, 15_000];
const KEY = 'linger.key';

/** A refusal, or no answer at all (status 0). */
export class Refused extends Error {
  constructor(status, code, message, field) {
    super(message);
    Object.assign(this, { status, code, field });
  }
}

/** How the way to the server is: told to all who listen. */
export const link = { away: false, why: '', loaded: null, next: 0, tries: 0, asksKey: false, skew: 0 };
const listeners = new Set();
export function onLink(listener) {
  listeners.add(listener);
}
function tell() {
  listeners.forEach((listener) => listener());
}

/** The server's time now, as far as it was told. */
export function now() {
  return Date.now() + link.skew;
}

/** A name as a part of a path. */
export const enc = encodeURIComponent;
/** The path of a topic, and of a job. */
export const topicPath = (topic) => `/v1/topics/${enc(topic)}`;
export const jobPath = (topic, id) => `${topicPath(topic)}/jobs/${enc(id)}`;

/** Parameters that are given, behind a question mark. */
export function query(params) {
  const given = Object.entries(params).filter(([, value]) => value != null && value !== '');
  const text = new URLSearchParams(given).toString();
  return text && `?${text}`;
}

/** Asks for something; `lossless` keeps numbers as they are written. */
export async function get(path, { lossless = false } = {}) {
  const text = await call('GET', path);
  return lossless ? parse(text) : JSON.parse(text);
}

/** What is there, or nothing if this server has no such call, or not for this key. */
export async function getIfThere(path) {
  try {
    return await get(path);
  } catch (error) {
    if ([403, 404, 405].includes(error.status)) return null;
    throw error;
  }
}

/** Has something done. The body is an object, or JSON that is sent as it is. */
export async function send(method, path, body = {}) {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return JSON.parse(await call(method, path, method === 'DELETE' ? undefined : text));
}
export const post = (path, body) => send('POST', path, body);

/** Paths are sent relative to the page, so that it works below a path of a proxy, too. */
async function call(method, path, body) {
  const headers = {};
  if (body !== undefined) headers['content-type'] = 'application/json';
  const key = keyInUse();
  if (key) headers.authorization = `Bearer ${key}`;
  let answer, text;
  try {
    const signal = AbortSignal.timeout(PATIENCE_MS * (method === 'GET' ? 1 : 4));
    answer = await fetch(path.slice(1), { method, headers, body, signal, cache: 'no-store' });
    text = await answer.text();
  } catch (cause) {
    lost(cause.message);
    throw new Refused(0, 'away', cause.message);
  }
  if (answer.ok) {
    found();
    return text;
  }
  throw refusal(answer.status, text);
}

function refusal(status, text) {
  let error = {};
  try {
    error = JSON.parse(text).error ?? {};
  } catch {
    // Not ours: something between here and the server has answered.
  }
  const refused = new Refused(
    status,
    error.code ?? 'unknown',
    error.message ?? `HTTP ${status}`,
    error.field,
  );
  if (status === 401) {
    link.asksKey = true;
    tell();
  } else if (status === 502 || status === 504 || refused.code === 'unavailable') lost(refused.message);
  return refused;
}

function found() {
  if (!link.away && !link.asksKey) return;
  Object.assign(link, { away: false, asksKey: false, why: '', loaded: null, tries: 0 });
  tell();
}

/** From now on one probe asks for all, so that a server that comes back is not run over. */
function lost(why) {
  link.why = why;
  if (link.away) return;
  link.away = true;
  link.tries = 0;
  probeLater();
  tell();
}

let timer;
function probeLater() {
  const pause = PAUSES_MS[Math.min(link.tries, PAUSES_MS.length - 1)];
  link.next = Date.now() + pause;
  clearTimeout(timer);
  timer = setTimeout(probe, pause);
}

/** Looks whether the server is back. */
export async function probe() {
  clearTimeout(timer);
  link.tries += 1;
  try {
    const answer = await fetch('readyz', { cache: 'no-store', signal: AbortSignal.timeout(PATIENCE_MS) });
    if (answer.ok) return found();
    const said = await answer.json();
    link.loaded = said.loaded ?? null;
    link.why = said.error?.message ?? '';
  } catch (cause) {
    link.loaded = null;
    link.why = cause.message;
  }
  probeLater();
  tell();
}

/** The key of this tab, if there is one. */
export const keyInUse = () => sessionStorage.getItem(KEY);

/** Forgets the key, and asks for another. */
export function signOut({ asks = true } = {}) {
  sessionStorage.removeItem(KEY);
  link.asksKey = asks;
  tell();
}

/** Keeps a key for this tab, and goes on with it. */
export function signIn(key) {
  sessionStorage.setItem(KEY, key);
  link.asksKey = false;
  tell();
}

/** Sets the clock by what the server said. */
export function setClock(text) {
  link.skew = Date.parse(text) - Date.now();
}

/**
 * Asks again and again while the page is looked at: one call at a time, none while the server is
 * away. Ends when `signal` is aborted. `ask` may answer how long to wait before the next.
 */
export function poll(every, signal, ask) {
  let running = false;
  let wait;
  const soon = () => {
    if (running || signal.aborted || document.hidden || link.away || link.asksKey) return;
    clearTimeout(wait);
    go();
  };
  async function go() {
    running = true;
    let pause = every;
    try {
      pause = (await ask()) ?? every;
    } catch (error) {
      // A refusal is told where the way to the server is watched. One who has left asks for nothing.
      if (error.status === undefined && !signal.aborted) console.error(error);
    }
    running = false;
    if (!signal.aborted) wait = setTimeout(soon, pause);
  }
  const listen = () => soon();
  document.addEventListener('visibilitychange', listen, { signal });
  listeners.add(listen);
  signal.addEventListener('abort', () => {
    listeners.delete(listen);
    clearTimeout(wait);
  });
  soon();
  return soon;
}
