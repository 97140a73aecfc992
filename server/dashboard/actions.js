// What people do to topics and jobs: each asks first, says how many, and tells what came of it.

import { get, jobPath, post, query, send, topicPath } from './api.js';
import { ask, attempt, inDialog, say, work } from './dialogs.js';
import { h } from './ui.js';
import { num, parts, t } from './words.js';

/** So many names in one call. */
const BATCH = 1_000;
/** A reschedule of all that match takes so many, at most. */
const RESCHEDULE_MAX = 10_000;
/** So many jobs are changed at once. */
const LANES = 4;

const bold = (text) => h('strong', { class: 'breakable' }, text);

/** Pauses a topic, for ever or for a while. */
export function pauseTopic(topic) {
  return ask({
    title: t('pause.title'),
    text: h('p', {}, parts('pause.text', { topic: bold(topic) })),
    fields: inDialog('for', t('pause.for'), { placeholder: '10m', hint: t('pause.hint') }),
    action: t('pause.action'),
    act: async ({ for: length }) => {
      await post(`${topicPath(topic)}/pause`, length.trim() ? { for: length.trim() } : {});
      say(t('pause.done', { topic }));
    },
  });
}

export function resumeTopic(topic) {
  return attempt(
    () => post(`${topicPath(topic)}/resume`),
    () => t('resume.done', { topic }),
  );
}

/** Removes all jobs of a topic, after it has said how many that is. */
export async function emptyTopic(topic) {
  const counted = await attempt(() => post(`${topicPath(topic)}/delete`, { where: {}, dry_run: true }));
  if (!counted) return undefined;
  return ask({
    title: t('empty.title'),
    text: [
      h('p', {}, parts('empty.text', { topic: bold(topic), count: bold(num(counted.count)) })),
      h('p', { class: 'muted' }, t('cannot_undo')),
    ],
    action: t('empty.action', { count: counted.count }),
    kind: 'danger',
    act: async () => {
      const { count } = await post(`${topicPath(topic)}/empty`);
      say(t('empty.done', { topic, count }));
    },
  });
}

/** Takes dead jobs off the shelf: all with this error, or all of the topic; at once or at a rate. */
export async function redrive(topic, error) {
  const where = error === undefined ? {} : { error };
  const counted = await attempt(() => post(`${topicPath(topic)}/redrive`, { where, dry_run: true }));
  if (!counted) return undefined;
  const total = counted.count;
  return ask({
    title: t('redrive.title'),
    text: [
      h('p', {}, parts('redrive.text', { topic: bold(topic), count: bold(num(total)) })),
      error !== undefined && h('pre', { class: 'excerpt' }, error),
    ],
    fields: [
      inDialog('rate', t('redrive.rate'), {
        type: 'number',
        min: 1,
        step: 1,
        placeholder: t('redrive.at_once'),
        hint: t('redrive.hint'),
      }),
    ],
    action: t('redrive.action', { count: total }),
    act: ({ rate }) => {
      const path = `${topicPath(topic)}/redrive`;
      if (!rate) return post(path, { where }).then(({ count }) => say(t('redrive.done', { topic, count })));
      // Not awaited: it goes on in the tray.
      work({
        title: t('redrive.task', { topic }),
        total,
        every: 1_000,
        step: async (task) => {
          const { count } = await post(path, { where, limit: Math.min(Number(rate), total - task.count) });
          task.count += count;
          return count > 0 && task.count < total;
        },
        done: ({ count }) => t('redrive.done', { topic, count }),
      });
      return true;
    },
  });
}

/** What can be done to many jobs, in the order of the bar. */
export const BULK = ['run', 'hold', 'unhold', 'redrive', 'delete'];

/** Does one thing to these jobs, or to all that fit `where`. */
export async function bulk(verb, topic, { ids, where }) {
  const path = `${topicPath(topic)}/${verb}`;
  let total = ids?.length;
  if (!ids) {
    const counted = await attempt(() => post(path, { where, dry_run: true }));
    if (!counted) return undefined;
    total = counted.count;
  }
  return ask({
    title: t(`bulk.${verb}`),
    text: [
      h(
        'p',
        {},
        parts(ids ? 'bulk.text' : 'bulk.text_where', {
          what: t(`bulk.${verb}`),
          count: bold(num(total)),
          topic: bold(topic),
        }),
      ),
      verb === 'delete' && h('p', { class: 'muted' }, t('cannot_undo')),
    ],
    action: t(`bulk.${verb}_action`, { count: total }),
    kind: verb === 'delete' ? 'danger' : 'primary',
    act: async () => {
      const { count, bad, why } = ids ? await named(path, ids) : await post(path, { where });
      say(bad ? t('bulk.partly', { count, bad, why }) : t('bulk.done', { what: t(`bulk.${verb}`), count }), {
        kind: bad ? 'bad' : '',
      });
    },
  });
}

async function named(path, ids) {
  const sum = { count: 0, bad: 0, why: '' };
  for (let at = 0; at < ids.length; at += BATCH) {
    const { results } = await post(path, { jobs: ids.slice(at, at + BATCH).map((id) => ({ id })) });
    for (const { changed, error } of results) {
      if (changed) sum.count += 1;
      if (!error) continue;
      sum.bad += 1;
      sum.why = error.message;
    }
  }
  return sum;
}

/** The fields of a new due time. */
export const whenFields = () => [
  inDialog('delay', t('when.delay'), { placeholder: '30m', hint: t('when.hint'), autofocus: true }),
  inDialog('at', t('when.at'), { type: 'datetime-local', step: 1 }),
];

/** A delay or a moment as the API takes it; a moment is in the time of whoever looks. */
export function readWhen({ delay, at }) {
  if (delay?.trim()) return { delay: delay.trim() };
  if (at) return { at: new Date(at).toISOString() };
  throw new Error(t('when.missing'));
}

/** Gives these jobs, or all that fit, another due time: one by one, with what is done in sight. */
export async function reschedule(topic, { ids, where }) {
  const all = ids ?? (await attempt(() => idsOf(topic, where)));
  if (!all) return undefined;
  return ask({
    title: t('bulk.reschedule'),
    text: [
      h(
        'p',
        {},
        parts('bulk.text', { what: t('bulk.reschedule'), count: bold(num(all.length)), topic: bold(topic) }),
      ),
      all.length >= RESCHEDULE_MAX &&
        h('p', { class: 'muted' }, t('bulk.first_only', { count: RESCHEDULE_MAX })),
    ],
    fields: whenFields(),
    action: t('bulk.reschedule_action', { count: all.length }),
    act: (form) => {
      const due = readWhen(form);
      if (all.length === 1)
        return send('PATCH', jobPath(topic, all[0]), due).then(() =>
          say(t('bulk.done', { what: t('bulk.reschedule'), count: 1 })),
        );
      patchAll(topic, all, due);
      return true;
    },
  });
}

async function idsOf(topic, where) {
  const ids = [];
  let cursor;
  do {
    const page = await get(`${topicPath(topic)}/jobs${query({ ...where, limit: BATCH, cursor })}`);
    ids.push(...page.jobs.map(({ id }) => id));
    cursor = page.cursor;
  } while (cursor && ids.length < RESCHEDULE_MAX);
  return ids.slice(0, RESCHEDULE_MAX);
}

function patchAll(topic, ids, due) {
  let next = 0;
  let why = '';
  return work({
    title: t('bulk.reschedule_task', { topic }),
    total: ids.length,
    step: async (task) => {
      const some = ids.slice(next, next + LANES);
      next += some.length;
      const done = await Promise.allSettled(some.map((id) => send('PATCH', jobPath(topic, id), due)));
      const refused = done.filter(({ status }) => status === 'rejected');
      why = refused.at(-1)?.reason.message ?? why;
      task.bad += refused.length;
      task.count += some.length - refused.length;
      return next < ids.length;
    },
    done: ({ count, bad }) =>
      bad ? t('bulk.partly', { count, bad, why }) : t('bulk.done', { what: t('bulk.reschedule'), count }),
  });
}
