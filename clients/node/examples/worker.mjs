// A worker as a program: writes down which jobs it has done, and stops in good order on SIGTERM.
//
//   LINGER_SERVER=http://127.0.0.1:7300 node worker.mjs TOPIC FILE
//
// A job that was under way when this process is killed comes again when its ttr is over, so a line may be
// there twice; none is missing.
import { appendFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Worker } from 'linger-queue';

const [topic, file] = process.argv.slice(2);
if (!topic || !file) {
  console.error('usage: node worker.mjs TOPIC FILE');
  process.exit(2);
}

const worker = new Worker(new Client(), {
  handlers: {
    [topic]: async (job) => {
      await sleep(10); // what would be work
      appendFileSync(file, `${job.id}\n`);
    },
  },
  concurrency: 16,
  signals: true,
});
worker.start();
console.log(`works on ${topic}`);
