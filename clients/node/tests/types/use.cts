// Compiled, never run: the types are there for `require`, too.
import linger = require('linger-queue');

const client: linger.Client = new linger.Client();
const error: linger.LingerError = new linger.LingerError('invalid', 'no');
const job: Promise<linger.Job<{ order: number }>> = client.get('a', '1');
// @ts-expect-error it has no such call
client.enqueue();
console.log(error, job);
