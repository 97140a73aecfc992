// A real server, in a folder and on a port of its own, and someone who takes what it pushes.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Longer than anything takes that happens at all. */
export const PATIENCE_MS = 60_000;

/** Waits until it is so, and answers what it was. */
export async function until(what, look) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const found = await look();
    if (found) return found;
    assert.ok(Date.now() < end, `it never is so: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const running = new Set();

/** Ends what tests that failed have left behind. */
export function endAll() {
  for (const { process, folder } of running) {
    process.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A server, and calls of its API. */
export class Server {
  static async start({ settings = [], listen = '127.0.0.1:0', folder, store } = {}) {
    const server = new Server();
    server.folder = folder ?? mkdtempSync(join(tmpdir(), 'linger-dashboard-'));
    server.settings = settings;
    server.store = store ?? join(server.folder, 'data');
    await server.run(listen);
    return server;
  }

  async run(listen) {
    const flags = ['serve', '--listen', listen, '--store', this.store];
    // Nobody's settings but these: neither from the environment nor from a file.
    const options = { cwd: this.folder, env: {}, stdio: ['ignore', 'ignore', 'pipe'] };
    this.process = spawn(
      process.env.LINGER,
      [...flags, ...this.settings.flatMap((one) => ['--set', one])],
      options,
    );
    let log = '';
    let over = false;
    this.process.stderr.on('data', (some) => (log += some));
    running.add(this);
    this.process.on('exit', () => (over = true));
    await until(`the server is ready: ${log}`, () => {
      assert.ok(!over, `the server has ended: ${log}`);
      return / ready$/m.test(log);
    });
    this.url = log.match(/listens on (http[^,]+),/)[1];
  }

  /** Ends it, and keeps its folder. */
  async stop() {
    const ended = new Promise((resolve) => this.process.on('exit', resolve));
    this.process.kill();
    await ended;
  }

  async end() {
    await this.stop();
    running.delete(this);
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** What every call brings along; a key, if the server asks for one. */
  headers() {
    const key = this.key ? { authorization: `Bearer ${this.key}` } : {};
    return { 'content-type': 'application/json', ...key };
  }

  async call(method, path, body) {
    const headers = this.headers();
    const answer = await fetch(this.url + path, { method, headers, body: body && JSON.stringify(body) });
    const text = await answer.text();
    return { status: answer.status, ...JSON.parse(text || '{}') };
  }

  async did(method, path, body) {
    const answer = await this.call(method, path, body);
    assert.ok(answer.status < 300, `${method} ${path}: ${JSON.stringify(answer)}`);
    return answer;
  }

  get = (path) => this.did('GET', path);
  post = (path, body = {}) => this.did('POST', path, body);
  put = (path, body) => this.did('PUT', path, body);

  /** Adds jobs; each must be taken. */
  async add(...jobs) {
    for (let at = 0; at < jobs.length; at += 1000) {
      const some = jobs.slice(at, at + 1000);
      const headers = this.headers();
      const answer = await fetch(`${this.url}/v1/jobs`, {
        method: 'POST',
        headers,
        body: JSON.stringify(some),
      });
      for (const one of await answer.json()) assert.ok(one.job, JSON.stringify(one));
    }
  }

  topic = (topic) => this.get(`/v1/topics/${encodeURIComponent(topic)}`);
  job = (topic, id) =>
    this.call('GET', `/v1/topics/${encodeURIComponent(topic)}/jobs/${encodeURIComponent(id)}`);
  counts = async (topic) => (await this.topic(topic)).counts;
}

/** A port where nobody listens, below those that the system gives out: it stays free while a server is away. */
export async function freePort() {
  for (;;) {
    const port = randomInt(15_000, 32_000);
    const listener = net.createServer();
    const isFree = await new Promise((resolve) =>
      listener.on('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true)),
    );
    if (!isFree) continue;
    await new Promise((resolve) => listener.close(resolve));
    return String(port);
  }
}

/** Takes what is pushed, and answers as the path says: `/ok`, `/500`, `/418`. */
export async function receiver() {
  const answers = http.createServer((request, response) => {
    request.resume().on('end', () => {
      const status = Number(request.url.slice(1, 4)) || 200;
      response.writeHead(status, { connection: 'close' });
      response.end(
        status === 200 ? 'thanks' : `<b>no</b> & "no" ${decodeURIComponent(request.url.slice(5))}`,
      );
    });
  });
  await new Promise((resolve) => answers.listen(0, '127.0.0.1', resolve));
  answers.unref();
  return { url: `http://127.0.0.1:${answers.address().port}`, end: () => answers.close() };
}

/** Jobs that have used up their attempts. */
export async function dead(server, url, topic, jobs) {
  const retry = { attempts: 2, backoff: { base: '1ms', max: '1ms', jitter: 0 } };
  await server.add(
    ...jobs.map(({ id, says }) => ({ topic, id, target: `${url}/${says}`, retry, body: { id } })),
  );
  await until(`all of ${topic} are dead`, async () => (await server.counts(topic)).dead === jobs.length);
}
