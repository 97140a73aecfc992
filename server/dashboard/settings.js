// The settings of a topic, and the retries of a job: as words, as fields, and back as JSON.

import { h } from './ui.js';
import { field } from './parts.js';
import { t } from './words.js';

/** Settings that are one word each; `number` ones are sent as numbers. */
const WORDS = ['ttr', 'target', 'timeout', 'archive', 'retain', 'retain_dead', 'rate'];
const NUMBERS = ['concurrency', 'jobs_max', 'bytes_max', 'partitions'];
const EXAMPLES = {
  ttr: '60s',
  target: 'https://shop.example/hooks',
  timeout: '30s',
  archive: 'files',
  retain: '7d',
  retain_dead: '30d',
  rate: '100, 10/m',
  concurrency: '8',
  jobs_max: '100000',
  bytes_max: '1000000000',
  partitions: '1',
};

/** A retry in words. */
export function retryWords({ attempts, ladder, backoff, from }) {
  const many =
    attempts === undefined
      ? null
      : attempts === 0
        ? t('retry.no_end')
        : t('retry.attempts', { count: attempts });
  const pace = ladder
    ? t(from === 'due' ? 'retry.ladder_due' : 'retry.ladder', { steps: ladder.join(' → ') })
    : backoff && t('retry.backoff', { base: backoff.base, max: backoff.max });
  return [many, pace].filter(Boolean).join('; ');
}

/** Name and value of each setting that is set. */
export function settingFacts(settings) {
  return Object.entries(settings).map(([name, value]) => [t(`set.${name}`), shown(name, value)]);
}

function shown(name, value) {
  if (name === 'retry') return retryWords(value);
  if (name === 'headers')
    return h(
      'span',
      {},
      Object.entries(value).map(([header, text]) => h('code', { class: 'line' }, `${header}: ${text}`)),
    );
  if (name === 'confirm' || name === 'envelope') return t(`${name}.${value}`);
  return h('code', {}, String(value));
}

/** The fields of a retry: as the topic or server has it, a backoff, or a ladder. */
export function retryFields(retry, prefix = '') {
  const kind = !retry ? '' : retry.ladder ? 'ladder' : 'backoff';
  const own = (name) => `${prefix}${name}`;
  const show = (event) => {
    event.target.closest('fieldset').dataset.kind = event.target.value;
  };
  return h(
    'fieldset',
    { class: 'retry', 'data-kind': kind },
    h('legend', {}, t('set.retry')),
    field(own('retry_kind'), t('retry.kind'), {
      options: [
        ['', t('retry.default')],
        ['backoff', t('retry.kind_backoff')],
        ['ladder', t('retry.kind_ladder')],
      ],
      value: kind,
      onchange: show,
    }),
    field(own('retry_attempts'), t('retry.field_attempts'), {
      type: 'number',
      min: 0,
      value: retry?.attempts ?? '',
      placeholder: '16',
      hint: t('retry.hint_attempts'),
      cls: 'any',
    }),
    field(own('retry_base'), t('retry.field_base'), {
      value: retry?.backoff?.base ?? '',
      placeholder: '1s',
      cls: 'backoff',
    }),
    field(own('retry_max'), t('retry.field_max'), {
      value: retry?.backoff?.max ?? '',
      placeholder: '1h',
      cls: 'backoff',
    }),
    field(own('retry_jitter'), t('retry.field_jitter'), {
      value: retry?.backoff?.jitter ?? '',
      placeholder: '0.2',
      cls: 'backoff',
    }),
    field(own('retry_ladder'), t('retry.field_ladder'), {
      value: retry?.ladder?.join(' ') ?? '',
      placeholder: '15s 3m 10m',
      cls: 'ladder',
    }),
    field(own('retry_from'), t('retry.field_from'), {
      options: [
        ['failure', t('retry.from_failure')],
        ['due', t('retry.from_due')],
      ],
      value: retry?.from ?? 'failure',
      cls: 'ladder',
    }),
  );
}

/** The retry that was filled in, or nothing. */
export function readRetry(form, prefix = '') {
  const given = (name) => form[`${prefix}${name}`]?.trim() || undefined;
  const kind = given('retry_kind');
  if (!kind) return undefined;
  const attempts = number(given('retry_attempts'));
  if (kind === 'ladder') {
    const ladder = (given('retry_ladder') ?? '').split(/[\s,]+/).filter(Boolean);
    return { attempts, ladder, from: given('retry_from') === 'due' ? 'due' : undefined };
  }
  const backoff = {
    base: given('retry_base'),
    max: given('retry_max'),
    jitter: number(given('retry_jitter')),
  };
  return {
    attempts,
    backoff: Object.values(backoff).some((value) => value !== undefined) ? backoff : undefined,
  };
}

/** A number as one; what is none is sent as it is, so that the server says what is wrong with it. */
export function number(text) {
  if (text === undefined || text === '') return undefined;
  return Number.isFinite(Number(text)) ? Number(text) : text;
}

/** All fields of a topic's settings. */
export function settingFields(settings) {
  const word = (name) =>
    field(name, t(`set.${name}`), {
      value: settings[name] ?? '',
      placeholder: EXAMPLES[name],
      hint: t(`set_hint.${name}`),
    });
  const choice = (name, values) =>
    field(name, t(`set.${name}`), {
      options: [['', t('set.unset')], ...values.map((value) => [value, t(`${name}.${value}`)])],
      value: settings[name] ?? '',
    });
  const headers = Object.entries(settings.headers ?? {}).map(([name, value]) => `${name}: ${value}`);
  return [
    h(
      'div',
      { class: 'grid-2' },
      ['ttr', 'rate', 'concurrency', 'jobs_max', 'bytes_max', 'retain', 'retain_dead', 'archive'].map(word),
    ),
    retryFields(settings.retry),
    h(
      'div',
      { class: 'grid-2' },
      ['target', 'timeout'].map(word),
      choice('confirm', ['delivery', 'finish']),
      choice('envelope', ['body', 'cloudevents', 'task']),
    ),
    field('headers', t('set.headers'), {
      rows: 2,
      value: headers.join('\n'),
      placeholder: 'X-Shop: 1',
      hint: t('set_hint.headers'),
    }),
    word('partitions'),
  ];
}

/** The whole settings that were filled in: they take the place of all there were. */
export function readSettings(form) {
  const settings = {};
  for (const name of [...WORDS, 'confirm', 'envelope']) settings[name] = form[name].trim() || undefined;
  for (const name of NUMBERS) settings[name] = number(form[name].trim());
  settings.retry = readRetry(form);
  const lines = form.headers.split('\n').filter((line) => line.trim());
  if (lines.length) settings.headers = Object.fromEntries(lines.map(header));
  return settings;
}

function header(line) {
  const [name, ...value] = line.split(':');
  return [name.trim(), value.join(':').trim()];
}
