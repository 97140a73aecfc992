// Loads BullMQ, and prints one line of figures: see "Peers" in ../../README.md.
//
// usage: node load.js PORT WHAT AT_ONCE COUNT MILLISECONDS [DUE_A_SECOND], with BullMQ in NODE_PATH
"use strict";

const crypto = require("node:crypto");
const threads = require("node:worker_threads");
const { Queue, Worker } = require("bullmq");

const [port, what, atOnce, count, milliseconds, dueASecond] = process.argv
  .slice(2)
  .map((given) => (/^\d+$/.test(given) ? Number(given) : given));
const connection = { host: "127.0.0.1", port, maxRetriesPerRequest: null };
const DAY_MS = 86_400_000;
const BATCH = 100;
const MANY = 1000;
// Before anything counts, at most so many jobs or a part of the time: a program in Node gets faster as it runs.
const WARM_UP = 2000;
const WARM_UP_PART = 4;
const BODY_BYTES = 200;
const LATENESS_WORKERS = 16;
const BURST_WORKERS = 64;
const AHEAD_MS = 3000;
const WARM_UP_MAX_MS = 60_000;
// In front of ids, which no other run on the same server may have had.
const NAME = `${Date.now().toString(36)}-${process.pid}`;

// A job that has ended is gone, as it is in Linger.
const queue = new Queue("orders", { connection, defaultJobOptions: { removeOnComplete: true } });

const now = () => performance.timeOrigin + performance.now();

function job(jobId, opts) {
  const body = crypto.randomBytes(BODY_BYTES / 2).toString("hex");
  return { name: "order", data: { body }, opts: { jobId, ...opts } };
}
const delayed = (id) => job(id, { delay: DAY_MS });
const addOne = ({ name, data, opts }) => queue.add(name, data, opts);

// One call at a time, by as many as there are to be at once.
async function calls(count, milliseconds, call) {
  const start = performance.now();
  let next = 0;
  let done = 0;
  const one = async () => {
    while (next < count && performance.now() - start < milliseconds) {
      await call(next++);
      done++;
    }
  };
  await Promise.all(Array.from({ length: atOnce }, one));
  return { jobs: done, seconds: (performance.now() - start) / 1000 };
}

async function warmCalls(call) {
  await calls(WARM_UP, milliseconds / WARM_UP_PART, (n) => call(`${NAME}-warm-${n}`));
  return calls(count, milliseconds, (n) => call(`${NAME}-order-${n}`));
}

const batchOf = (size, made) => queue.addBulk(Array.from({ length: size }, (_, n) => made(n)));

async function put(prefix, count, made) {
  for (let from = 0; from < count; from += MANY) {
    const size = Math.min(MANY, count - from);
    await batchOf(size, (n) => made(`${NAME}-${prefix}-${from + n}`, from + n));
  }
}

const add = () => warmCalls((id) => addOne(delayed(id)));

async function batch() {
  const call = (prefix) => (n) => batchOf(BATCH, (at) => delayed(`${NAME}-${prefix}-${n}-${at}`));
  await calls(WARM_UP / BATCH, milliseconds / WARM_UP_PART, call("warm"));
  const { jobs, seconds } = await calls(count / BATCH, milliseconds, call("order"));
  return { jobs: jobs * BATCH, seconds };
}

async function cancel() {
  await put("warm", WARM_UP, delayed);
  await put("order", count, delayed);
  return warmCalls(async (id) => {
    if ((await queue.remove(id)) !== 1) throw new Error(`${id} is not there to be removed`);
  });
}

async function fill() {
  const start = performance.now();
  await put("order", count, delayed);
  return { jobs: count, seconds: (performance.now() - start) / 1000 };
}

function worker(concurrency, work) {
  return new Worker("orders", work, { connection, concurrency, autorun: false });
}

// From when the worker has finished some jobs, or a time is over, until it has finished so many more, or a time is over.
function finished(worker, before, beforeMs, count, milliseconds) {
  return new Promise((resolve, reject) => {
    let start;
    let jobs = 0;
    const end = () => resolve({ jobs, seconds: (performance.now() - start) / 1000 });
    const begin = () => {
      if (start !== undefined) return;
      start = performance.now();
      jobs = 0;
      setTimeout(end, milliseconds);
    };
    if (before === 0) begin();
    else setTimeout(begin, beforeMs);
    worker.on("completed", () => {
      jobs++;
      if (start === undefined && jobs === before) begin();
      else if (start !== undefined && jobs === count) end();
    });
    worker.on("error", reject);
  });
}

async function workOff() {
  const one = worker(atOnce, async () => {});
  const ended = finished(one, WARM_UP, milliseconds / WARM_UP_PART, count, milliseconds);
  one.run();
  return ended;
}

async function work() {
  await put("order", WARM_UP + count, (id) => job(id));
  return workOff();
}

// Adders have a thread of their own, as they would have a process.
async function round() {
  new threads.Worker(__filename, { argv: process.argv.slice(2) });
  return workOff();
}
const adders = () => calls(WARM_UP + count, Infinity, (n) => addOne(job(`${NAME}-order-${n}`)));

// Has all jobs added before the first is due, and says of what the worker did then.
async function atTimes(workers, spreadMs, told) {
  let late = [];
  const one = worker(workers, async ({ timestamp, opts }) => {
    late.push(now() - timestamp - opts.delay);
  });
  const warm = finished(one, 0, 0, WARM_UP, WARM_UP_MAX_MS);
  one.run();
  const start = performance.now();
  await put("warm", WARM_UP, (id) => job(id, { timestamp: Date.now(), delay: 1 }));
  const eachMs = (performance.now() - start) / WARM_UP;
  await warm;
  late = [];
  const due = Date.now() + AHEAD_MS + Math.ceil(2 * count * eachMs);
  const ended = finished(one, 0, 0, count, due - Date.now() + milliseconds);
  await put("timed", count, (id, n) => {
    const timestamp = Date.now();
    return job(id, { timestamp, delay: due + Math.round(n * spreadMs) - timestamp });
  });
  if (now() > due) throw new Error("the adds took longer than was allowed for");
  const { jobs } = await ended;
  if (jobs < count) return { unsupported: `only ${jobs} of ${count} within ${milliseconds / 1000} s` };
  return told(late, now() - due);
}

const lateness = () =>
  atTimes(LATENESS_WORKERS, 1000 / dueASecond, (late) => {
    late.sort((a, b) => a - b);
    const early = late.filter((ms) => ms < 0).length;
    // One that came early is not late at all.
    const at = (part) => Math.max(late[Math.floor((late.length - 1) * part)], 0);
    return { p50_ms: at(0.5), p99_ms: at(0.99), max_ms: at(1), early };
  });

const burst = () => atTimes(BURST_WORKERS, 0, (_, lastMs) => ({ last_ms: lastMs }));

const loads = { add, batch, work, round, cancel, fill, lateness, burst };

(threads.isMainThread ? loads[what]() : adders())
  .then((figures) => {
    if (!threads.isMainThread) return;
    console.log(JSON.stringify(figures));
    // What is under way does not count any more.
    process.exit(0);
  })
  .catch((wrong) => {
    console.error(wrong);
    process.exit(1);
  });
