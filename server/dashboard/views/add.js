// A job added by hand, with the command that does the same.

import { enc, get, jobPath, send } from '../api.js';
import { editable, readBody } from '../body.js';
import { say } from '../dialogs.js';
import { card, copyable, empty, field } from '../parts.js';
import { number, readRetry, retryFields } from '../settings.js';
import { h } from '../ui.js';
import { may, who } from '../who.js';
import { t } from '../words.js';

const KINDS = ['json', 'text', 'base64'];
const TEXTS = [
  'id',
  'delay',
  'ttr',
  'target',
  'confirm',
  'envelope',
  'retain',
  'on_conflict',
  'content_type',
  'traceparent',
];

export function open({ query, redraw }) {
  let start = { topic: query.topic ?? '', kind: 'json', body: '' };
  let form = null;
  let trouble = null;
  let ready = !query.clone;
  let busy = false;
  if (query.clone) {
    load(query.topic, query.clone)
      .then((cloned) => (start = cloned))
      .catch((error) => (trouble = error))
      .finally(() => {
        ready = true;
        redraw();
      });
  }
  /** What would be sent, as text; or why nothing can be. */
  const request = () => {
    try {
      return {
        text: form ? written(Object.fromEntries(new FormData(form))) : written({ ...blank(), ...start }),
      };
    } catch (error) {
      return { error };
    }
  };
  const submit = async (event) => {
    event.preventDefault();
    const { text, error } = request();
    trouble = error ?? null;
    if (!error) {
      busy = true;
      redraw();
      try {
        const job = await send('POST', '/v1/jobs', text);
        say(t('add.done', { id: job.id }), {
          href: `#/jobs/${enc(job.topic)}/${enc(job.id)}`,
          hrefText: t('add.look'),
        });
      } catch (refused) {
        trouble = refused;
      }
      busy = false;
    }
    redraw();
    if (trouble?.field)
      form.elements[
        { body: 'body', body_base64: 'body', at: 'at' }[trouble.field] ?? trouble.field
      ]?.focus?.();
  };
  const draw = () => [
    h(
      'div',
      { class: 'head' },
      h('h1', { tabindex: '-1' }, query.clone ? t('add.clone', { id: query.clone }) : t('menu.add')),
    ),
    who && !may('add') && empty(t('key.no_add'), h('p', { class: 'muted' }, t('key.no_add_text'))),
    !ready && h('p', { class: 'muted loading' }, t('loading')),
    ready &&
      may('add') &&
      h(
        'div',
        { class: 'columns add' },
        h(
          'form',
          {
            class: 'card fields',
            onsubmit: submit,
            oninput: redraw,
            onchange: redraw,
            ref: (element) => (form = element),
            novalidate: true,
          },
          fields(start),
          trouble && h('p', { class: 'trouble', role: 'alert' }, trouble.message),
          h(
            'div',
            { class: 'form-actions' },
            h('button', { type: 'submit', class: 'button primary', disabled: busy }, t('add.action')),
          ),
        ),
        h('div', {}, commandCard(request())),
      ),
  ];
  return { title: t('menu.add'), draw };
}

function fields(start) {
  const text = (name, props = {}) => field(name, t(`set.${name}`), { value: start[name] ?? '', ...props });
  const choice = (name, values) =>
    field(name, t(`set.${name}`), {
      options: [['', t('set.unset')], ...values.map((value) => [value, t(`${name}.${value}`)])],
      value: start[name] ?? '',
    });
  return [
    h(
      'div',
      { class: 'grid-2' },
      field('topic', t('topic'), { value: start.topic, placeholder: 'default' }),
      text('id', { placeholder: t('add.id_hint') }),
    ),
    h(
      'div',
      { class: 'grid-2' },
      text('delay', { placeholder: '30m', hint: t('when.hint') }),
      field('at', t('when.at'), { type: 'datetime-local', step: 1, hint: t('add.at_hint') }),
    ),
    field('kind', t('add.body_kind'), {
      options: KINDS.map((name) => [name, t(`body.${name}`)]),
      value: start.kind,
    }),
    field('body', t('job.body'), { rows: 8, value: start.body, placeholder: '{"order": 1001}', cls: 'code' }),
    h(
      'details',
      { class: 'more-fields', open: Boolean(start.target || start.retry || start.repeat || start.ttr) },
      h('summary', {}, t('add.more')),
      h(
        'div',
        { class: 'fields' },
        h(
          'div',
          { class: 'grid-2' },
          text('target', { placeholder: 'https://shop.example/hooks' }),
          text('ttr', { placeholder: '60s' }),
          choice('confirm', ['delivery', 'finish']),
          choice('envelope', ['body', 'cloudevents', 'task']),
        ),
        retryFields(start.retry),
        repeatFields(start.repeat),
        h(
          'div',
          { class: 'grid-2' },
          field('priority', t('job.priority'), {
            type: 'number',
            min: 0,
            value: start.priority ?? '',
            placeholder: '1024',
            hint: t('add.priority_hint'),
          }),
          text('retain', { placeholder: '7d' }),
          field('on_conflict', t('set.on_conflict'), {
            options: ['reject', 'keep', 'replace'].map((name) => [name, t(`on_conflict.${name}`)]),
            value: 'reject',
          }),
          text('content_type', { placeholder: 'application/json' }),
          text('traceparent', {}),
        ),
        h(
          'label',
          { class: 'check-line' },
          h('input', { type: 'checkbox', name: 'held' }),
          h('span', {}, t('add.held')),
        ),
      ),
    ),
  ];
}

function repeatFields(repeat) {
  const show = (event) => {
    event.target.closest('fieldset').dataset.kind = event.target.value;
  };
  const kind = !repeat ? '' : repeat.cron ? 'cron' : 'every';
  return h(
    'fieldset',
    { class: 'retry', 'data-kind': kind },
    h('legend', {}, t('set.repeat')),
    field('repeat_kind', t('repeat.kind'), {
      options: [
        ['', t('repeat.never')],
        ['every', t('repeat.kind_every')],
        ['cron', t('repeat.kind_cron')],
      ],
      value: kind,
      onchange: show,
    }),
    field('repeat_every', t('repeat.field_every'), {
      placeholder: '60s',
      value: repeat?.every ?? '',
      cls: 'every',
    }),
    field('repeat_cron', t('repeat.field_cron'), {
      placeholder: '0 9 * * *',
      value: repeat?.cron ?? '',
      cls: 'cron',
    }),
    field('repeat_tz', t('repeat.field_tz'), { placeholder: 'UTC', value: repeat?.tz ?? '', cls: 'cron' }),
    field('repeat_count', t('repeat.field_count'), {
      type: 'number',
      min: 1,
      value: repeat?.count ?? '',
      cls: 'any',
    }),
    field('repeat_until', t('repeat.field_until'), { type: 'datetime-local', step: 1, cls: 'any' }),
  );
}

/** Fields as they are before anything is filled in. */
function blank() {
  return {
    ...Object.fromEntries(TEXTS.map((name) => [name, ''])),
    topic: '',
    at: '',
    priority: '',
    kind: 'json',
    body: '',
  };
}

/** The request of a form, as JSON text: a body goes out as it was written. */
function written(form) {
  const job = { topic: form.topic.trim() || undefined };
  for (const name of TEXTS) job[name] = form[name]?.trim() || undefined;
  if (job.on_conflict === 'reject') delete job.on_conflict;
  if (form.at) job.at = new Date(form.at).toISOString();
  job.priority = number(form.priority);
  job.retry = form.retry_kind === undefined ? form.retry : readRetry(form);
  job.repeat = form.repeat_kind === undefined ? form.repeat : readRepeat(form);
  if (form.held) job.held = true;
  const text = JSON.stringify(job);
  if (form.body.trim() === '') return text;
  return `${text.slice(0, -1)}${text === '{}' ? '' : ','}${readBody(form.kind, form.body)}}`;
}

function readRepeat(form) {
  const given = (name) => form[`repeat_${name}`].trim() || undefined;
  if (!form.repeat_kind) return undefined;
  const rule =
    form.repeat_kind === 'cron' ? { cron: given('cron'), tz: given('tz') } : { every: given('every') };
  return {
    ...rule,
    count: number(given('count')),
    until: given('until') && new Date(given('until')).toISOString(),
  };
}

function commandCard({ text, error }) {
  const quoted = text?.replaceAll("'", "'\\''");
  return card(
    t('add.command'),
    { cls: 'sticky' },
    error
      ? h('p', { class: 'muted' }, error.message)
      : copyable(`curl ${location.origin}/v1/jobs -d '${quoted}'`, { cls: 'wrap', label: t('add.copy') }),
    h('p', { class: 'muted' }, t('add.command_text')),
  );
}

/** What a job was given, for another one like it. */
async function load(topic, id) {
  const job = await get(jobPath(topic, id), { lossless: true });
  const { kind, text } = editable(job);
  const { ttr, target, confirm, envelope, retain, content_type, traceparent, retry, repeat } = job;
  return {
    topic,
    kind,
    body: text,
    ttr,
    target,
    confirm,
    envelope,
    retain,
    content_type,
    traceparent,
    retry,
    repeat,
    priority: job.priority === 1024 ? '' : job.priority,
  };
}
