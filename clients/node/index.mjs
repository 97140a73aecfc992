export {
  Again,
  Client,
  Job,
  LingerError,
  PushedJob,
  RawJson,
  RetryIn,
  Service,
  Webhook,
  Worker,
  verify,
} from './index.js';
