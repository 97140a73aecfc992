// One job: what it carries, when it is due, what happened to it, and how to change that.

import { enc, get, getIfThere, jobPath, post, query, send } from '../api.js';
import { readWhen, whenFields } from '../actions.js';
import { bodyView, editable, readBody } from '../body.js';
import { ask, attempt, inDialog, say } from '../dialogs.js';
import { badge, button, card, copyButton, empty, facts, moment, moments, tag } from '../parts.js';
import { retryWords } from '../settings.js';
import { h } from '../ui.js';
import { may } from '../who.js';
import { fromNow, has, inWords, num, t } from '../words.js';

const BAD = ['failed', 'timed_out', 'lost', 'died'];
const GOOD = ['finished', 'delivered'];
/** So many of its next times are told. */
const UPCOMING = 5;

export function open({ params: [topic, id], redraw, poll }) {
  const path = jobPath(topic, id);
  let job = null;
  let history = [];
  let upcoming = null;
  let gone = false;
  const look = poll(2_000, async () => {
    try {
      const next = await get(path, { lossless: true });
      // The body is drawn anew only if the job has changed: people may be reading it.
      if (job?.version === next.version && job.number === next.number) next.body = job.body;
      const [told, soon] = await Promise.all([
        get(`${path}/history`),
        getIfThere(`${path}/upcoming${query({ count: UPCOMING })}`),
      ]);
      [job, history, upcoming, gone] = [next, told.history, soon?.upcoming, false];
    } catch (error) {
      if (error.status !== 404) throw error;
      gone = true;
    }
    redraw();
  });
  const then = async (action) => {
    await action;
    look();
  };
  const draw = () => [
    h(
      'div',
      { class: 'head' },
      h(
        'p',
        { class: 'crumbs' },
        h('a', { href: `#/jobs${query({ topic })}` }, t('menu.jobs')),
        h('span', {}, '/'),
        h('a', { href: `#/topics/${enc(topic)}`, class: 'breakable' }, topic),
      ),
      h('h1', { tabindex: '-1', class: 'breakable mono' }, id),
      job && !gone && badge(job.state),
      h('a', { class: 'muted', href: `#/events${query({ topic, id })}` }, t('job.events')),
      job && !gone && h('div', { class: 'head-actions' }, buttons(path, job, then)),
    ),
    gone &&
      (job
        ? h('div', { class: 'note' }, t('job.gone'))
        : empty(t('job.missing'), h('p', { class: 'muted' }, t('job.missing_text')))),
    !job && !gone && h('p', { class: 'muted loading' }, t('loading')),
    job &&
      h(
        'div',
        { class: 'columns job' },
        h('div', { class: 'stack' }, bodyCard(job), timeline(history)),
        h('div', { class: 'stack' }, standing(job), job.repeat && !gone && schedule(job, upcoming)),
      ),
  ];
  return { title: id, draw };
}

function buttons(path, job, then) {
  const { state } = job;
  const guard = { if_version: job.version };
  const act = (verb) =>
    then(
      attempt(
        () => post(`${path}/${verb}`, guard),
        () => t(`did.${verb}`),
      ),
    );
  if (!may('add', job.topic)) return null;
  const can = { finished: [], reserved: ['edit'], dead: ['redrive'] }[state] ?? [
    'run',
    'reschedule',
    'edit',
    state === 'held' ? 'unhold' : 'hold',
  ];
  const redrive = () =>
    then(
      attempt(
        () => post(`${path.replace(/\/jobs\/[^/]*$/, '')}/redrive`, { jobs: [{ id: job.id }] }),
        () => t('did.redrive'),
      ),
    );
  return [
    can.includes('run') && button(t('bulk.run'), () => act('run')),
    can.includes('redrive') && button(t('bulk.redrive'), redrive),
    can.includes('reschedule') && button(t('bulk.reschedule'), () => then(reschedule(path, job))),
    can.includes('edit') && button(t('job.edit_body'), () => then(editBody(path, job))),
    can.includes('hold') && button(t('bulk.hold'), () => act('hold')),
    can.includes('unhold') && button(t('bulk.unhold'), () => act('unhold')),
    h('a', { class: 'button', href: `#/add${query({ topic: job.topic, clone: job.id })}` }, t('job.clone')),
    button(t('job.cancel'), () => then(cancel(path, job)), { kind: 'danger-quiet' }),
  ];
}

function reschedule(path, job) {
  return ask({
    title: t('bulk.reschedule'),
    text: h('p', {}, t('job.due_now', { at: inWords(job.due) })),
    fields: whenFields(),
    action: t('bulk.reschedule'),
    act: async (form) => {
      await send('PATCH', path, { ...readWhen(form), if_version: job.version });
      say(t('did.reschedule'));
    },
  });
}

function editBody(path, job) {
  const { text, kind } = editable(job);
  return ask({
    title: t('job.edit_body'),
    wide: true,
    fields: [
      inDialog('kind', t('add.body_kind'), {
        options: ['json', 'text', 'base64'].map((name) => [name, t(`body.${name}`)]),
        value: kind,
      }),
      inDialog('body', t('job.body'), { rows: 14, value: text, cls: 'code' }),
    ],
    action: t('settings.save'),
    act: async (form) => {
      // Put together as text: the numbers of a body go out as they are written.
      await send('PATCH', path, `{"if_version":${job.version},${readBody(form.kind, form.body)}}`);
      say(t('did.edit'));
    },
  });
}

function cancel(path, job) {
  return ask({
    title: t('job.cancel'),
    text: [
      h('p', {}, t('job.cancel_text', { id: job.id, topic: job.topic })),
      h('p', { class: 'muted' }, t('cannot_undo')),
    ],
    action: t('job.cancel_action'),
    kind: 'danger',
    act: async () => {
      await send('DELETE', `${path}${query({ if_version: job.version })}`);
      say(t('did.cancel'));
    },
  });
}

function standing(job) {
  const code = (name) =>
    job[name] !== undefined && [t(`set.${name}`), h('code', { class: 'breakable' }, job[name])];
  return card(
    t('job.standing'),
    {},
    facts([
      [t('job.due'), moments(job.due)],
      job.reserved_until && [t('job.reserved_until'), moments(job.reserved_until)],
      [t('job.attempt'), num(job.attempt)],
      job.last_error !== undefined && [
        t('job.last_error'),
        h('span', { class: 'error-text' }, job.last_error),
      ],
      [t('job.priority'), num(job.priority)],
      job.occurrence && [t('job.occurrence'), num(job.occurrence)],
      code('ttr'),
      job.retry && [t('set.retry'), retryWords(job.retry)],
      code('target'),
      job.confirm && [t('set.confirm'), t(`confirm.${job.confirm}`)],
      job.envelope && [t('set.envelope'), t(`envelope.${job.envelope}`)],
      code('retain'),
      code('content_type'),
      code('traceparent'),
      [t('job.created'), moments(job.created)],
      [t('job.version'), num(job.version)],
      [t('job.number'), num(job.number)],
    ]),
  );
}

function bodyCard(job) {
  const { text } = editable(job);
  return card(t('job.body'), { extra: text && copyButton(text) }, bodyView(job));
}

function schedule({ repeat }, upcoming) {
  const rule = repeat.every
    ? t('repeat.every', { every: repeat.every })
    : t('repeat.cron', { cron: repeat.cron, tz: repeat.tz });
  const ends = [
    repeat.until && t('repeat.until', { at: inWords(repeat.until) }),
    repeat.count && t('repeat.count', { count: repeat.count }),
  ];
  return card(
    t('job.schedule'),
    {},
    h('p', {}, rule),
    ends.some(Boolean) && h('p', { class: 'muted' }, ends.filter(Boolean).join(' · ')),
    upcoming?.length > 0 &&
      h(
        'ol',
        { class: 'upcoming' },
        upcoming.map((at) =>
          h('li', {}, h('time', { datetime: at }, inWords(at)), h('span', { class: 'muted' }, fromNow(at))),
        ),
      ),
  );
}

function timeline(history) {
  const entry = ({ at, what, attempt: number, took, error, by, answer }, place) => {
    const kind = BAD.includes(what) ? 'bad' : GOOD.includes(what) ? 'good' : '';
    const words = has(`what.${what}`) ? t(`what.${what}`) : what;
    return h(
      'li',
      { key: `${at} ${place}`, class: kind },
      h(
        'p',
        { class: 'event' },
        h('strong', {}, words),
        number > 0 && h('span', { class: 'muted' }, t('what.attempt', { number })),
        took && tag(t('what.took', { took })),
        answer?.status && tag(`HTTP ${answer.status}`, answer.status < 300 ? 'good' : 'bad'),
        by && h('span', { class: 'muted' }, t('what.by', { by })),
        h(
          'span',
          { class: 'event-at' },
          moment(at, { far: false }),
          h('span', { class: 'muted' }, ` · ${fromNow(at)}`),
        ),
      ),
      error && h('p', { class: 'error-text' }, error),
      answer?.excerpt && h('pre', { class: 'excerpt', tabindex: '0' }, answer.excerpt),
    );
  };
  const newestFirst = history.map(entry).reverse();
  return card(
    t('job.history'),
    {},
    newestFirst.length
      ? h('ol', { class: 'timeline' }, newestFirst)
      : h('p', { class: 'muted' }, t('job.no_history')),
  );
}
