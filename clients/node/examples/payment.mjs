// A shop asks a payment provider, along a ladder, whether its orders are paid.
//
//   node payment.mjs [LINGER]      the path of the program `linger`; or in the environment, as LINGER
//
// Order 1001 is asked for until the answer is final: the worker says "again" until then. For order 1002 the
// provider's own notice comes first, and the shop cancels the job. The provider, the shop's door for notices and the
// queue are real HTTP servers, on ports of their own.
//
// Prints every question, answer and notice, and what became of both jobs; exits with 1 if that is not as it should be.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { Again, Client, LingerError, Worker } from 'linger-queue';

/** An order is paid when the provider is asked about it for the third time. */
const PAID_AT_QUESTION = 3;

const queue = await startQueue(process.argv[2] ?? process.env.LINGER ?? 'linger');
const client = new Client({ servers: queue.url });
const questions = {};
const provider = await serve(answerQuestion);
const shop = await serve(takeNotice);

let paid;
const isPaid = new Promise((resolve) => (paid = resolve));
const worker = new Worker(client, { handlers: { 'payment.ask': ask } }).start();

// As payment providers recommend, only faster: soon at first, then less and less often.
const retry = { ladder: [50, 100, 200, 400, 800] };
await client.add({ topic: 'payment.ask', id: '1001', delay: '50ms', retry, body: { order: '1001' } });
await client.add({ topic: 'payment.ask', id: '1002', delay: '1h', retry, body: { order: '1002' } });

console.log('provider: order 1002 is paid, telling the shop');
const told = await fetch(shop.url, { method: 'POST', body: '1002' });
const toldAgain = await fetch(shop.url, { method: 'POST', body: '1002' });

await Promise.race([isPaid, sleep(10_000, undefined, { ref: false })]);
await worker.stop();

const { totals } = await client.request('GET', '/v1/stats');
console.log(`${totals.again} answered again, ${totals.finished} done, ${totals.failed} failed`);
const right =
  isDeepStrictEqual([told.status, toldAgain.status], [200, 404]) &&
  isDeepStrictEqual(questions, { 1001: PAID_AT_QUESTION }) &&
  isDeepStrictEqual([totals.again, totals.finished, totals.failed], [2, 1, 0]);
await Promise.all([provider, shop, queue].map(({ stop }) => stop()));
if (!right) {
  console.error('that is not how it should have gone');
  process.exitCode = 1;
}

/** The worker's part: asks the provider whether an order is paid. */
async function ask(job, { signal }) {
  const answer = await fetch(`${provider.url}/${job.body.order}`, { signal });
  const status = await answer.text();
  console.log(`shop: attempt ${job.attempt}, order ${job.body.order} is ${status}`);
  if (status !== 'paid') throw new Again();
  paid();
}

/** The provider: answers whether an order is paid, and counts how often it was asked. */
async function answerQuestion(path) {
  const order = path.slice(1);
  questions[order] = (questions[order] ?? 0) + 1;
  return [200, questions[order] < PAID_AT_QUESTION ? 'pending' : 'paid'];
}

/** The shop's door for notices: an order that is known to be paid is not asked for any more. */
async function takeNotice(path, order) {
  try {
    await client.delete('payment.ask', order);
    console.log(`shop: told that order ${order} is paid, its job is cancelled`);
    return [200, 'thanks'];
  } catch (error) {
    if (LingerError.is(error, 'not_found')) return [404, error.message];
    throw error;
  }
}

/** Serves HTTP on a port of its own. */
async function serve(answer) {
  const server = http.createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    const [status, text] = await answer(request.url, body);
    response.writeHead(status, { connection: 'close' }).end(text);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { url: `http://127.0.0.1:${server.address().port}`, stop: () => server.close() };
}

/** Starts a queue with a folder and a port of its own; answers when it is ready. */
async function startQueue(program) {
  const folder = mkdtempSync(join(tmpdir(), 'payment-'));
  const args = ['serve', '--listen', '127.0.0.1:0', '--store', join(folder, 'store')];
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const stop = async () => {
    child.kill();
    await once(child, 'exit');
    rmSync(folder, { recursive: true });
  };
  const url = await new Promise((resolve, reject) => {
    let address;
    child.on('error', reject);
    child.on('exit', (code) => reject(new Error(`${program} ended with ${code}`)));
    for (const stream of [child.stdout, child.stderr]) {
      createInterface(stream).on('line', (line) => {
        address ??= /listens on (http:\S+:\d+)/.exec(line)?.[1];
        if (line.includes(' ready')) resolve(address);
      });
    }
  });
  return { url, stop };
}
