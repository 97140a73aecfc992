// Has BullMQ add jobs, or work off jobs that are due, and prints how many in how many seconds.
//
// usage: node load.js PORT add|work AT_ONCE COUNT MILLISECONDS, with BullMQ in NODE_PATH
"use strict";

const crypto = require("node:crypto");
const { Queue, Worker } = require("bullmq");

const [port, what, atOnce, count, milliseconds] = process.argv
  .slice(2)
  .map((given) => (/^\d+$/.test(given) ? Number(given) : given));
const connection = { host: "127.0.0.1", port, maxRetriesPerRequest: null };
const DAY_MS = 86_400_000;
const MANY = 1000;
// Jobs before anything counts: a program in Node gets faster as it runs.
const WARM_UP = 2000;
const BODY_BYTES = 200;

// A job that has ended is gone, as it is in Linger.
const queue = new Queue("orders", { connection, defaultJobOptions: { removeOnComplete: true } });

const body = () => crypto.randomBytes(BODY_BYTES / 2).toString("hex");

// One add at a time, by as many as there are to be at once.
async function add(prefix, count, milliseconds) {
  const start = performance.now();
  let next = 0;
  let jobs = 0;
  const one = async () => {
    while (next < count && performance.now() - start < milliseconds) {
      const jobId = `${prefix}-${next++}`;
      await queue.add("order", { body: body() }, { jobId, delay: DAY_MS });
      jobs++;
    }
  };
  await Promise.all(Array.from({ length: atOnce }, one));
  return { jobs, seconds: (performance.now() - start) / 1000 };
}

async function addDue(count) {
  for (let from = 0; from < count; from += MANY) {
    const numbers = Array.from({ length: Math.min(MANY, count - from) }, (_, n) => from + n);
    await queue.addBulk(
      numbers.map((n) => ({
        name: "order",
        data: { body: body() },
        opts: { jobId: `order-${n}` },
      })),
    );
  }
}

// From when a worker is warm until it has ended all jobs, or the time is over.
async function work() {
  await addDue(WARM_UP + count);
  const worker = new Worker("orders", async () => {}, {
    connection,
    concurrency: atOnce,
    autorun: false,
  });
  await worker.waitUntilReady();
  let start;
  let jobs = -WARM_UP;
  await new Promise((resolve, reject) => {
    worker.on("completed", () => {
      jobs++;
      if (jobs === 0) {
        start = performance.now();
        setTimeout(resolve, milliseconds);
      } else if (jobs === count) {
        resolve();
      }
    });
    worker.on("error", reject);
    worker.run().catch(reject);
  });
  return { jobs, seconds: (performance.now() - start) / 1000 };
}

async function warmAdd() {
  await add("warm", WARM_UP, Infinity);
  return add("order", count, milliseconds);
}

(what === "add" ? warmAdd() : work())
  .then((figures) => {
    console.log(JSON.stringify(figures));
    // What is under way does not count any more.
    process.exit(0);
  })
  .catch((wrong) => {
    console.error(wrong);
    process.exit(1);
  });
