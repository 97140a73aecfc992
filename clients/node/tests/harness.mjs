// What the tests have in common: real servers, a proxy that loses answers, and waiting for facts.
import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

/** The server under test. */
export const LINGER = process.env.LINGER;
if (!LINGER) throw new Error('LINGER is not set; run clients/node/test LINGER TOOLS');

const DEADLINE_MS = 30_000;

/** What is to be ended or removed when the tests of the file are over; the latest first. */
const cleanups = [];
after(async () => {
  for (const cleanup of cleanups.reverse()) await cleanup();
});

/** A folder of one's own, gone when the tests of the file are over. */
export function folder() {
  const path = mkdtempSync(join(tmpdir(), 'linger-node-'));
  cleanups.push(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** Asks again and again until the answer is true. */
export async function until(what, ask) {
  const deadline = Date.now() + DEADLINE_MS;
  for (;;) {
    const answer = await ask();
    if (answer) return answer;
    if (Date.now() > deadline) throw new Error(`still not so after ${DEADLINE_MS / 1000} s: ${what}`);
    await sleep(20);
  }
}

/** Whether a topic has no jobs; one that has none may be forgotten. */
export async function isEmpty(client, topic) {
  const counts = await client.topic(topic).then(
    ({ counts }) => counts ?? {},
    (error) => (error.code === 'not_found' ? {} : Promise.reject(error)),
  );
  return Object.values(counts).every((count) => count === 0);
}

/** A promise, and what settles it. */
export function gate() {
  let open;
  const opened = new Promise((resolve) => (open = resolve));
  return { open, opened };
}

/** Starts a program, ends it with the tests, and keeps what it says. */
export function run(command, args, env = {}) {
  const child = spawn(command, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  const lines = [];
  for (const stream of [child.stdout, child.stderr]) createInterface(stream).on('line', (line) => lines.push(line));
  const ended = once(child, 'exit').then(([code, signal]) => signal ?? code);
  const kill = () => child.kill('SIGKILL');
  process.once('exit', kill);
  ended.then(() => process.off('exit', kill));
  return { child, lines, ended, said: (part) => lines.find((line) => line.includes(part)) };
}

/** Starts a Linger; answers once it is ready. */
export async function linger({ store = join(folder(), 'store'), port = 0, args = [], env = {} } = {}) {
  const program = run(LINGER, ['serve', '--listen', `127.0.0.1:${port}`, '--store', store, ...args], env);
  const failed = program.ended.then((code) =>
    Promise.reject(new Error(`linger ended with ${code}: ${program.lines.join('\n')}`)),
  );
  failed.catch(() => {});
  await Promise.race([failed, until('linger is ready', () => program.said(' ready') && program.said('listens on'))]);
  const [url] = /https?:\/\/[\d.]+:\d+/.exec(program.said('listens on'));
  const stop = async (signal = 'SIGTERM') => {
    program.child.kill(signal);
    await program.ended;
  };
  cleanups.push(() => stop('SIGKILL'));
  return { url, port: Number(new URL(url).port), store, stop };
}

/** Listens on loopback, on any free port unless given, until the tests of the file are over. */
export async function listen(server, port = 0) {
  const sockets = new Set();
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  cleanups.push(() => {
    server.close();
    sockets.forEach((socket) => socket.destroy());
  });
  return `http://127.0.0.1:${server.address().port}`;
}

/** A port on which nobody listens, of those that the system gives to nobody by itself. */
export async function freePort() {
  for (;;) {
    const port = randomInt(20_000, 30_001);
    const server = net.createServer();
    try {
      server.listen(port, '127.0.0.1');
      await once(server, 'listening');
    } catch (error) {
      if (error.code === 'EADDRINUSE') continue;
      throw error;
    }
    server.close();
    await once(server, 'close');
    return port;
  }
}

/**
 * Passes requests on to a server. What `trouble` answers for a request is done to it: `lose` hangs up when the server
 * has answered; `hang` never answers; an object is the answer, and the server never hears of it. `date` is the clock of its answers, and
 * `beforeEnd` is called when the head of an answer has gone out and its body has not.
 */
export async function proxy(target, trouble = () => undefined, { date, beforeEnd } = {}) {
  const seen = [];
  const handle = async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const call = { method: request.method, path: request.url, headers: request.headers, body: body.toString() };
    seen.push(call);
    const what = trouble(call, seen.length);
    if (what === 'hang') return;
    const { status, text } =
      typeof what === 'object'
        ? { status: what.status, text: JSON.stringify(what.body) }
        : await pass(target, call, response);
    if (what === 'lose') return response.destroy();
    if (date) response.setHeader('date', date());
    response.writeHead(status, { 'content-type': 'application/json' });
    if (beforeEnd) {
      response.flushHeaders();
      await sleep(50);
      beforeEnd(call);
    }
    response.end(text);
  };
  // Whoever hangs up is not answered.
  const server = http.createServer((request, response) => handle(request, response).catch(() => response.destroy()));
  return { url: await listen(server), seen };
}

async function pass(target, { method, path, headers, body }, response) {
  const { host, ...rest } = headers;
  const request = http.request(target + path, { method, headers: rest });
  response.on('close', () => request.destroy());
  request.end(body);
  const [answer] = await once(request, 'response');
  const chunks = [];
  for await (const chunk of answer) chunks.push(chunk);
  return { status: answer.statusCode, text: Buffer.concat(chunks).toString() };
}

/** An answer of a server that is away. */
export const unavailable = { status: 503, body: { error: { code: 'unavailable', message: 'the server is stopping' } } };
export const overloaded = {
  status: 503,
  body: { error: { code: 'overloaded', message: 'more is in work than may be' } },
};
