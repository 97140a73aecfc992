// One topic: its counts, its future, its errors, its settings, and what can be done to it.

import { enc, get, getIfThere, send, topicPath } from '../api.js';
import { emptyTopic, pauseTopic, redrive, resumeTopic } from '../actions.js';
import { DueChart } from '../chart.js';
import { ask, say } from '../dialogs.js';
import { held, ratesSince } from '../live.js';
import { button, card, empty, facts, tag, tile } from '../parts.js';
import { readSettings, settingFacts, settingFields } from '../settings.js';
import { h } from '../ui.js';
import { may } from '../who.js';
import { num, rate, t } from '../words.js';

const STATES = ['delayed', 'ready', 'reserved', 'retry', 'held', 'dead', 'finished'];
/** Rates are over about so long. */
const RATE_MS = 10_000;

export function open({ params: [topic], signal, redraw, poll }) {
  let info;
  let errors = null;
  let missing = false;
  let looks = [];
  const chart = new DueChart({
    signal,
    redraw,
    whose: () => ({ topics: [topic], isAll: true }),
    onpick: (from, to) =>
      (location.hash = jobsHref(topic, { due_after: from.toISOString(), due_before: to.toISOString() })),
  });
  const look = poll(2_000, async () => {
    try {
      info = await get(topicPath(topic));
      missing = false;
    } catch (error) {
      if (error.status !== 404) throw error;
      missing = true;
      return redraw();
    }
    const at = performance.now();
    looks = [
      ...looks.filter((one) => at - one.at < RATE_MS),
      { at, seen: new Map([[topic, [info.added, held(info.counts)]]]) },
    ];
    Object.assign(info, ratesSince(looks[0], at, info));
    errors = info.counts.dead > 0 ? await getIfThere(`${topicPath(topic)}/errors`) : null;
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
      h('p', { class: 'crumbs' }, h('a', { href: '#/topics' }, t('menu.topics'))),
      h('h1', { tabindex: '-1', class: 'breakable' }, topic),
      info?.paused &&
        tag(info.paused_for ? t('topic.paused_for', { for: info.paused_for }) : t('topic.paused'), 'warn'),
      info && !missing && h('div', { class: 'head-actions' }, buttons(topic, info, then)),
    ),
    missing &&
      empty(
        t('topic.missing'),
        h('p', { class: 'muted' }, t('topic.missing_text')),
        may('add', topic) &&
          h('p', {}, h('a', { class: 'button', href: `#/add?topic=${enc(topic)}` }, t('menu.add'))),
      ),
    !info && !missing && h('p', { class: 'muted loading' }, t('loading')),
    info &&
      !missing && [
        h(
          'div',
          { class: 'tiles seven' },
          STATES.map((state) =>
            tile(t(`state.${state}`), info.counts[state], { state, href: jobsHref(topic, { state }) }),
          ),
        ),
        chart.draw(),
        h(
          'div',
          { class: 'columns two' },
          settings(topic, info, then),
          h(
            'div',
            { class: 'stack' },
            flow(info),
            errors?.errors.length > 0 && dead(topic, errors.errors, then),
          ),
        ),
      ],
  ];
  return { title: topic, draw };
}

const jobsHref = (topic, filter) => `#/jobs?${new URLSearchParams({ topic, ...filter })}`;

function buttons(topic, info, then) {
  return [
    h('a', { class: 'button', href: jobsHref(topic, {}) }, t('topic.browse')),
    may('admin', topic) &&
      (info.paused
        ? button(t('topic.resume'), () => then(resumeTopic(topic)))
        : button(t('topic.pause'), () => then(pauseTopic(topic)))),
    info.counts.dead > 0 && may('add', topic) && button(t('topic.redrive'), () => then(redrive(topic))),
    may('admin', topic) && button(t('topic.empty'), () => then(emptyTopic(topic)), { kind: 'danger-quiet' }),
  ];
}

function flow(info) {
  return card(
    t('topic.flow'),
    {},
    facts([
      [t('topic.in'), `${rate(info.inRate)} ${t('rates.unit')}`],
      [t('topic.out'), `${rate(info.outRate)} ${t('rates.unit')}`],
      [t('topic.added'), num(info.added)],
      [t('topic.workers'), num(info.waiting)],
    ]),
  );
}

function dead(topic, errors, then) {
  const row = ({ error, count }) =>
    h(
      'li',
      { key: error },
      h('a', { class: 'error-text', href: jobsHref(topic, { state: 'dead', error }) }, error),
      h('span', { class: 'num' }, num(count)),
      may('add', topic) &&
        button(t('topic.redrive_short'), () => then(redrive(topic, error)), { kind: 'small' }),
    );
  return card(
    t('topic.errors'),
    {},
    h('ul', { class: 'errors' }, errors.slice(0, 10).map(row)),
    errors.length > 10 && h('p', { class: 'muted' }, t('more', { count: errors.length - 10 })),
  );
}

function settings(topic, info, then) {
  const edit = () =>
    ask({
      title: t('settings.edit'),
      wide: true,
      text: h('p', { class: 'muted' }, t('settings.text')),
      fields: settingFields(info.settings),
      action: t('settings.save'),
      act: async (form) => {
        await send('PUT', topicPath(topic), readSettings(form));
        say(t('settings.done', { topic }));
      },
    });
  const all = settingFacts(info.settings);
  return card(
    t('settings.title'),
    {
      extra: may('admin', topic) && button(t('settings.edit'), () => then(edit()), { kind: 'small' }),
    },
    all.length ? facts(all) : h('p', { class: 'muted' }, t('settings.none')),
  );
}
