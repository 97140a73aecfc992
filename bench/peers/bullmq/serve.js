// BullMQ behind an HTTP server: as programs in other languages would use it. It takes those of Linger's calls
// that are measured, and no others.
//
// usage: node serve.js REDIS_PORT PORT, with BullMQ in NODE_PATH
"use strict";

const http = require("node:http");
const { Queue, Worker } = require("bullmq");

const [redisPort, port] = process.argv.slice(2).map(Number);
const connection = { host: "127.0.0.1", port: redisPort, maxRetriesPerRequest: null };
// A job that has ended is gone, as it is in Linger.
const defaultJobOptions = { removeOnComplete: true };

const topics = new Map();
function topic(name) {
  if (!topics.has(name)) {
    const queue = new Queue(name, { connection, defaultJobOptions });
    const worker = new Worker(name, null, { connection, autorun: false });
    topics.set(name, { queue, worker });
  }
  return topics.get(name);
}

const options = ({ id, delay }) => ({ jobId: id, delay: delay * 1000 });

async function add(given) {
  if (!Array.isArray(given)) {
    await topic(given.topic).queue.add("job", { body: given.body }, options(given));
    return {};
  }
  const jobs = given.map((one) => ({ name: "job", data: { body: one.body }, opts: options(one) }));
  await topic(given[0].topic).queue.addBulk(jobs);
  return [];
}

// By its lease. That it is known here spares BullMQ from reading it again.
const handedOut = new Map();
let leases = 0;

async function pop(name) {
  const lease = String(++leases);
  const job = await topic(name).worker.getNextJob(lease, { block: false });
  if (!job) return {};
  handedOut.set(lease, job);
  return { topic: name, id: job.id, lease, body: job.data.body };
}

async function finish({ lease }) {
  const job = handedOut.get(lease);
  handedOut.delete(lease);
  await job.moveToCompleted(null, lease, false);
  return {};
}

function done(path, given) {
  const parts = path.split("/");
  if (path === "/v1/jobs") return add(given);
  if (parts.at(-1) === "pop") return pop(parts[3]);
  return finish(given);
}

const server = http.createServer((request, response) => {
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", async () => {
    let [status, answer] = [200, ""];
    try {
      answer = JSON.stringify(await done(request.url, JSON.parse(Buffer.concat(chunks))));
    } catch (wrong) {
      [status, answer] = [500, JSON.stringify({ error: String(wrong) })];
    }
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(answer) };
    response.writeHead(status, headers).end(answer);
  });
});
server.listen(port, "127.0.0.1");
