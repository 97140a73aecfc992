// What is waiting, what falls due when, how fast and how late: the page that is kept open.

import { enc, getIfThere } from '../api.js';
import { DueChart } from '../chart.js';
import { askTopicsWithin, lateness, rateOf, rates, stats, topics, waiting } from '../live.js';
import { card, copyable, facts, icon, moment, spark, tag, tile } from '../parts.js';
import { h } from '../ui.js';
import { seesAll } from '../who.js';
import { bytes, num, rate, span, t } from '../words.js';

/** So many topics have a colour of their own. */
const TOPICS_SHOWN = 7;
/** Which topics have most waiting jobs is looked up so often. */
const TOPICS_MS = 20_000;
const STATES = ['delayed', 'ready', 'reserved', 'retry', 'held', 'dead'];

export function open({ signal, redraw, poll }) {
  let alarms = null;
  let nodes = null;
  let chart = null;
  poll(TOPICS_MS, async () => {
    await askTopicsWithin(TOPICS_MS / 2, signal);
    chart ??= new DueChart({ signal, redraw, whose: busiest });
    redraw();
    // A server that is filled for the first time is looked at more closely.
    return topics.length <= TOPICS_SHOWN ? 2_000 : TOPICS_MS;
  });
  poll(4_000, async () => {
    [alarms, nodes] = await Promise.all([getIfThere('/v1/alarms'), getIfThere('/v1/nodes')]);
    redraw();
  });
  const draw = () => [
    h('div', { class: 'head' }, h('h1', { tabindex: '-1' }, t('menu.overview'))),
    alarms && firing(alarms),
    nodes?.warning && h('div', { class: 'alarm' }, icon('warn'), h('p', {}, nodes.warning)),
    stats && isFresh() && lesson(),
    stats &&
      h(
        'div',
        { class: 'tiles' },
        STATES.map((state) => tile(t(`state.${state}`), stats.counts[state], { state, href: hrefOf(state) })),
      ),
    chart?.draw(),
    stats && h('div', { class: 'columns three' }, flow(), late(), serverCard(nodes, alarms)),
  ];
  return { title: t('menu.overview'), draw };
}

const hrefOf = (state) => (state === 'dead' ? '#/dead' : `#/topics?sort=${state}`);
const isFresh = () => stats.totals.added === 0 && stats.topics === 0;

function busiest() {
  const most = [...topics].sort((a, b) => waiting(b.counts) - waiting(a.counts));
  const shown = most.slice(0, TOPICS_SHOWN).filter(({ counts }) => waiting(counts) > 0);
  // The sum over all topics is for keys that are for all of them.
  return { topics: shown.map(({ topic }) => topic), isAll: !seesAll() };
}

function firing({ alarms }) {
  const all = alarms.filter(({ state }) => state === 'firing');
  if (!all.length) return null;
  return h(
    'div',
    { class: 'alarms', role: 'region', 'aria-label': t('alarms.firing') },
    all.map((alarm) => {
      const told = alarm.incidents.filter(({ state }) => state === 'firing');
      return h(
        'div',
        { key: alarm.name, class: 'alarm' },
        icon('warn'),
        h('p', {}, h('strong', {}, alarm.name), ' ', h('span', { class: 'muted' }, rule(alarm))),
        h(
          'ul',
          {},
          told.slice(0, 5).map(incident),
          told.length > 5 && h('li', {}, t('more', { count: told.length - 5 })),
        ),
      );
    }),
  );
}

/** What it watches, and its border if it has one. */
function rule({ kind, threshold }) {
  const what = t(`alarm.${kind}`);
  if (kind === 'disk') return t('alarms.below', { what, threshold: bytes(threshold) });
  return ['dead', 'late', 'backlog'].includes(kind) ? t('alarms.over', { what, threshold }) : what;
}

function incident({ topic, destination, value, since }) {
  const what = topic
    ? h('a', { href: `#/topics/${enc(topic)}` }, topic)
    : destination
      ? h('a', { href: '#/delivery' }, destination)
      : null;
  return h(
    'li',
    {},
    what,
    what && ' ',
    h('strong', { class: 'num' }, Math.round(value * 10) / 10),
    h('span', { class: 'muted' }, ' · ', moment(since)),
  );
}

function lesson() {
  const origin = location.origin;
  const steps = [
    [
      t('fresh.add'),
      `curl ${origin}/v1/jobs -d '{"topic":"order.close","id":"1001","delay":"10s","body":{"order":1001}}'`,
    ],
    [t('fresh.pop'), `curl ${origin}/v1/topics/order.close/pop -d '{"wait":"60s"}'`],
    [t('fresh.finish'), `curl ${origin}/v1/topics/order.close/jobs/1001/finish -d '{}'`],
  ];
  return card(
    t('fresh.title'),
    { cls: 'lesson' },
    h('p', { class: 'muted' }, t('fresh.text'), ' ', h('a', { href: '#/add' }, t('fresh.by_hand'))),
    h(
      'ol',
      {},
      steps.map(([words, command]) => h('li', {}, h('p', {}, words), copyable(command))),
    ),
  );
}

function flow() {
  const lines = [
    ['added', ({ totals }) => totals.added, 'in'],
    ['finished', ({ totals }) => totals.finished, 'out'],
    ['failed', ({ totals }) => totals.failed + totals.timed_out, 'bad'],
  ];
  return card(
    t('rates.title'),
    {},
    h(
      'div',
      { class: 'flows' },
      lines.map(([name, count, cls]) => {
        const shown = rate(rateOf(count));
        return h(
          'div',
          { class: 'flow' },
          h('span', { class: 'flow-name' }, t(`rates.${name}`)),
          h('span', { class: 'flow-value num' }, shown, h('span', { class: 'muted' }, ` ${t('rates.unit')}`)),
          spark(rates(count), { cls }),
        );
      }),
    ),
    facts([
      [t('rates.workers'), num(stats.waiting)],
      stats.pushes && [t('rates.pushes'), num(stats.pushes.running)],
      [t('rates.since'), num(stats.totals.added)],
    ]),
  );
}

function late() {
  const row = (name) => {
    const found = lateness(name);
    const cell = (one) => h('td', { class: 'num' }, one ? (one.over ? '> ' : '') + span(one.ms) : '–');
    return h('tr', {}, h('th', { scope: 'row' }, t(`late.${name}`)), cell(found?.p50), cell(found?.p99));
  };
  const oldest = stats.oldest_ready;
  const isOld = lateness('due_to_ready') && !lateness('due_to_ready').isRecent;
  return card(
    t('late.title'),
    { extra: h('span', { class: 'muted' }, t(isOld ? 'late.all' : 'late.recent')) },
    h(
      'table',
      { class: 'plain' },
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          h('td', {}),
          h('th', { scope: 'col', class: 'num' }, 'p50'),
          h('th', { scope: 'col', class: 'num' }, 'p99'),
        ),
      ),
      h('tbody', {}, row('due_to_ready'), row('ready_to_handed_out')),
    ),
    h(
      'div',
      { class: 'oldest' },
      h('p', { class: 'muted' }, t('late.oldest')),
      oldest
        ? [
            h(
              'p',
              { class: 'line' },
              h('a', { href: `#/jobs/${enc(oldest.topic)}/${enc(oldest.id)}`, class: 'clip' }, oldest.id),
              moment(oldest.due),
            ),
            h('p', { class: 'muted clip' }, oldest.topic),
          ]
        : h('p', { class: 'line' }, t('late.none')),
    ),
  );
}

function serverCard(nodes, alarms) {
  const { store } = stats;
  const folder = store.kind === 'folder';
  const rules = alarms?.alarms ?? [];
  const alive = nodes?.nodes ?? [];
  const bad = rules.filter(({ state }) => state === 'firing').length;
  return card(
    t('server.title'),
    {},
    facts([
      nodes && [
        t('server.instances'),
        h(
          'a',
          { href: '#/nodes' },
          alive.length === 1 ? t('server.alone') : t('server.alive', { count: alive.length }),
        ),
      ],
      [
        t('server.store'),
        folder
          ? [t('server.folder'), ' ', tag(store.durability)]
          : [
              store.kind,
              ' ',
              store.away_seconds > 0
                ? tag(t('server.away', { count: Math.round(store.away_seconds) }), 'bad')
                : tag(t('server.reached'), 'good'),
            ],
      ],
      folder && [
        t('server.log'),
        `${bytes(store.log_bytes)} · ${t('server.live', { size: bytes(store.live_bytes) })}`,
      ],
      folder && [t('server.free'), store.full ? tag(t('server.full'), 'bad') : bytes(store.free_bytes)],
      [t('server.topics'), h('a', { href: '#/topics' }, num(stats.topics))],
      alarms && [
        t('alarms.title'),
        rules.length
          ? bad
            ? tag(t('alarms.count', { count: bad }), 'bad')
            : tag(t('alarms.quiet', { count: rules.length }), 'good')
          : h('span', { class: 'muted' }, t('alarms.no_rules')),
      ],
      [t('server.started'), moment(stats.started)],
    ]),
  );
}
