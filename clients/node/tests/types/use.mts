// Compiled, never run: what users write has the types that they expect, and mistakes are seen.
import express from 'express';
import Fastify from 'fastify';
import { Again, Client, Job, LingerError, RawJson, RetryIn, Service, Webhook, Worker, verify } from 'linger-queue';
import type { Changed, PoppedJob, PushedJob, Standing } from 'linger-queue';

interface Order {
    order: number;
}

const client = new Client({
    servers: ['http://a:7300', 'http://b:7300'],
    key: 'lk_1',
    timeout: '10s',
    connectTimeout: 500,
});

const added: Job = await client.add({ topic: 'order.close', delay: '30m', at: new Date(), body: { order: 1 } });
const due: Date = added.due;
await client.add(
    { body: new RawJson('{}'), retry: { ladder: [50, '1s'] } },
    { idempotencyKey: 'k', signal: AbortSignal.timeout(5) },
);
for (const { job, error } of await client.addMany([{ body: Buffer.from('x') }])) {
    if (error) console.log(error.code);
    else console.log(job.id);
}
const jobs: PoppedJob<Order>[] = await client.pop<Order>(['a', 'b'], { max: 2, wait: 500 });
const order: number = jobs[0]!.body.order;
const changed: Changed = await client.finish(jobs[0]!);
const standing: Standing | undefined = changed.job;
await client.fail({ topic: 'a', id: '1' }, { error: 'no', retry_in: '1s', again: true });
for await (const job of client.jobs('a', { state: 'dead', body: true })) console.log(job.text);
for await (const topic of client.topics({ prefix: 'a' })) console.log(topic.counts?.ready);

// @ts-expect-error a misspelt field
await client.add({ topics: 'a' });
// @ts-expect-error a topic is missing
await client.get('1');
// @ts-expect-error no such policy
await client.add({ on_conflict: 'ignore' });
// @ts-expect-error no such state
client.jobs('a', { state: 'gone' });
// @ts-expect-error a Date is no length of time
await client.pop('a', { wait: new Date() });

const worker: Worker = new Worker(client, {
    concurrency: 4,
    handlers: {
        'order.close': async (job, { signal }) => {
            await fetch('http://shop', { signal });
            if (job.attempt > 3) throw new RetryIn('30s', 'busy');
            throw new Again();
        },
    },
});
worker.start();
await worker.stop({ grace: 1000 });
// @ts-expect-error handlers are missing
new Worker(client, {});

const options = {
    secrets: ['whsec_'],
    handlers: { a: (job: PushedJob<Order>) => console.log(job.body.order, job.webhookId) },
};
const webhook = new Webhook(options);
express().post('/hooks', webhook.express());
await Fastify().register(webhook.fastify(), { path: '/hooks' });
const pushed: PushedJob = verify('whsec_', new Headers(), Buffer.from(''));
const service = new Service(client, { app: 'shop', url: 'http://10.0.0.7', handlers: options.handlers });
express().post('/jobs', service.express());
const id: string | undefined = (await service.start()).id;
// @ts-expect-error an application has a name
new Service(client, { handlers: options.handlers });

try {
    await client.get('a', '1');
} catch (error) {
    if (LingerError.is(error, 'not_found')) console.log(error.status, error.field);
}
console.log(due, order, standing, pushed, id, added instanceof Job);
