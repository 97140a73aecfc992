// The shelf of dead jobs: by topic and error, to be looked at and sent on their way again.

import { enc, getIfThere, query, topicPath } from '../api.js';
import { redrive } from '../actions.js';
import { askTopics, topics } from '../live.js';
import { button, empty } from '../parts.js';
import { h } from '../ui.js';
import { may } from '../who.js';
import { num, t } from '../words.js';

/** The errors of so many topics are looked up; of others when they are asked for. */
const OPEN = 10;
const TOPICS_SHOWN = 200;
const ERRORS_SHOWN = 50;

export function open({ signal, redraw, poll }) {
  /** By topic: its errors; null where the server has no such call. */
  const errors = new Map();
  const opened = new Map();
  const isOpen = (topic, at) => opened.get(topic) ?? at < OPEN;
  const look = poll(2_000, async () => {
    const pause = await askTopics(signal);
    const shown = dead()
      .filter(({ topic }, at) => isOpen(topic, at))
      .slice(0, OPEN * 2);
    await Promise.all(
      shown.map(async ({ topic }) => {
        const answer = await getIfThere(`${topicPath(topic)}/errors`);
        errors.set(topic, answer?.errors ?? null);
      }),
    );
    redraw();
    return pause;
  });
  const then = async (action) => {
    await action;
    look();
  };
  const group = ({ topic, counts }, at) => {
    const toggle = (event) => {
      if (event.target.open === isOpen(topic, at)) return;
      opened.set(topic, event.target.open);
      look();
    };
    return h(
      'details',
      { key: topic, class: 'card group', open: isOpen(topic, at), ontoggle: toggle },
      h(
        'summary',
        {},
        h('span', { class: 'group-name breakable' }, topic),
        h('span', { class: 'num n-dead' }, t('dead.count', { count: counts.dead })),
      ),
      h(
        'div',
        { class: 'group-actions' },
        h('a', { class: 'button small', href: jobsHref(topic, {}) }, t('dead.look')),
        h('a', { class: 'button small', href: `#/topics/${enc(topic)}` }, t('jobs.to_topic')),
        may('add', topic) && button(t('dead.redrive_all'), () => then(redrive(topic)), { kind: 'small' }),
      ),
      errorList(topic, counts.dead, errors.get(topic), then),
    );
  };
  const draw = () => {
    const all = topics && dead();
    const total = all?.reduce((sum, { counts }) => sum + counts.dead, 0);
    return [
      h(
        'div',
        { class: 'head' },
        h('h1', { tabindex: '-1' }, t('menu.dead')),
        total > 0 && h('span', { class: 'muted num' }, t('dead.sum', { count: total })),
      ),
      !all && h('p', { class: 'muted loading' }, t('loading')),
      all?.length === 0 && empty(t('dead.empty'), h('p', { class: 'muted' }, t('dead.empty_text'))),
      all?.slice(0, TOPICS_SHOWN).map(group),
      all?.length > TOPICS_SHOWN &&
        h('p', { class: 'muted' }, t('more', { count: all.length - TOPICS_SHOWN })),
    ];
  };
  return { title: t('menu.dead'), draw };
}

function dead() {
  return topics.filter(({ counts }) => counts.dead > 0).sort((a, b) => b.counts.dead - a.counts.dead);
}

const jobsHref = (topic, filter) => `#/jobs${query({ topic, state: 'dead', ...filter })}`;

function errorList(topic, total, errors, then) {
  if (errors === undefined) return h('p', { class: 'muted' }, t('loading'));
  if (errors === null) return null;
  const known = errors.reduce((sum, { count }) => sum + count, 0);
  const row = ({ error, count }) =>
    h(
      'li',
      { key: error },
      h('a', { class: 'error-text', href: jobsHref(topic, { error }) }, error),
      h(
        'span',
        { class: 'share', 'aria-hidden': 'true' },
        h('i', { style: { width: `${Math.max(1, (count / total) * 100)}%` } }),
      ),
      h('span', { class: 'num' }, num(count)),
      may('add', topic) &&
        button(t('dead.redrive'), () => then(redrive(topic, error)), {
          kind: 'small',
          'aria-label': t('dead.redrive_error', { error }),
        }),
    );
  return h(
    'ul',
    { class: 'errors' },
    errors.slice(0, ERRORS_SHOWN).map(row),
    total > known && h('li', { class: 'muted' }, t('dead.rest', { count: total - known })),
  );
}
