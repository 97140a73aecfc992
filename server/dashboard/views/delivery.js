// Where jobs are pushed: destinations and how they do, workers that have registered, what failed last.

import { enc, get, getIfThere, now } from '../api.js';
import { stats } from '../live.js';
import { card, empty, moment, moments, tag, tile } from '../parts.js';
import { plainTable } from '../table.js';
import { h } from '../ui.js';
import { num, percent, span, t } from '../words.js';

const LIMIT = 200;
const KIND = { open: 'good', closed: 'bad', probing: 'warn', live: 'good', draining: 'warn' };
const OUTCOMES = ['done', 'failed', 'again', 'dead', 'left'];

export function open({ redraw, poll }) {
  let destinations;
  let workers;
  poll(2_000, async () => {
    [destinations, workers] = await Promise.all([
      getIfThere(`/v1/destinations?limit=${LIMIT}`),
      get(`/v1/workers?limit=${LIMIT}`),
    ]);
    redraw();
  });
  const draw = () => [
    h('div', { class: 'head' }, h('h1', { tabindex: '-1' }, t('menu.delivery'))),
    stats?.pushes &&
      h(
        'div',
        { class: 'tiles' },
        tile(t('push.running'), stats.pushes.running),
        OUTCOMES.map((name) => tile(t(`push.${name}`), stats.pushes.totals[name] ?? 0)),
      ),
    workers === undefined && h('p', { class: 'muted loading' }, t('loading')),
    destinations &&
      card(
        t('dest.title'),
        { cls: 'flush' },
        destinations.destinations.length
          ? destinationTable(destinations)
          : empty(t('dest.none'), h('p', { class: 'muted' }, t('dest.none_text'))),
      ),
    workers &&
      card(
        t('workers.title'),
        { cls: 'flush' },
        workers.workers.length
          ? workerTable(workers)
          : empty(t('workers.none'), h('p', { class: 'muted' }, t('workers.none_text'))),
      ),
    destinations &&
      card(
        t('failures.title'),
        { cls: 'flush' },
        destinations.recent_failures.length
          ? failureTable(destinations.recent_failures)
          : empty(t('failures.none')),
      ),
  ];
  return { title: t('menu.delivery'), draw };
}

function success({ deliveries, failures }) {
  return deliveries ? percent((deliveries - failures) / deliveries) : '–';
}

function destinationTable({ destinations, cursor }) {
  const state = ({ state, opens }) => [
    tag(t(`dest.${state}`), KIND[state]),
    Date.parse(opens) > now() && h('span', { class: 'muted', title: t('dest.opens') }, ' ', moment(opens)),
  ];
  const ms =
    (name) =>
    ({ latency_ms: latency }) =>
      latency ? span(latency[name]) : '–';
  const columns = [
    {
      title: t('dest.name'),
      cls: 'name fair',
      cell: ({ destination }) => h('span', { class: 'mono', title: destination }, destination),
    },
    { title: t('job.state'), cls: 'breaker', cell: state },
    { title: t('dest.success'), cls: 'num', cell: success },
    { title: 'p50', cls: 'num', minor: true, cell: ms('p50') },
    { title: 'p99', cls: 'num', cell: ms('p99') },
    { title: t('dest.under_way'), cls: 'num', minor: true, cell: ({ under_way: count }) => num(count) },
    { title: t('dest.deliveries'), cls: 'num', minor: true, cell: ({ deliveries }) => num(deliveries) },
    {
      title: t('job.last_error'),
      cls: 'clip-cell',
      minor: true,
      cell: ({ last_error: error, last_failure: at }) =>
        error && h('span', { title: error }, moment(at), ' ', h('span', { class: 'muted' }, error)),
    },
  ];
  return [
    plainTable(t('dest.title'), columns, destinations, ({ destination }) => destination),
    cursor && h('p', { class: 'muted inset' }, t('dest.first', { count: destinations.length })),
  ];
}

function workerTable({ workers, cursor }) {
  const columns = [
    {
      title: t('workers.app'),
      cls: 'name wide',
      cell: ({ app, url }) => [
        h('strong', {}, app),
        ' ',
        h('span', { class: 'mono muted', title: url }, url),
      ],
    },
    { title: t('job.state'), cls: 'state', cell: ({ state }) => tag(t(`workers.${state}`), KIND[state]) },
    {
      title: t('workers.topics'),
      cls: 'clip-cell',
      minor: true,
      cell: ({ topics }) => h('span', { title: topics.join(', ') }, topics.join(', ')),
    },
    { title: t('dest.success'), cls: 'num', cell: success },
    { title: t('dest.under_way'), cls: 'num', cell: ({ under_way: count }) => num(count) },
    { title: t('dest.deliveries'), cls: 'num', minor: true, cell: ({ deliveries }) => num(deliveries) },
    { title: t('workers.expires'), cls: 'when', minor: true, cell: ({ expires }) => moment(expires) },
    {
      title: t('job.last_error'),
      cls: 'clip-cell',
      minor: true,
      cell: ({ last_error: error }) => error && h('span', { title: error }, error),
    },
  ];
  return [
    plainTable(t('workers.title'), columns, workers, ({ id }) => id),
    cursor && h('p', { class: 'muted inset' }, t('dest.first', { count: workers.length })),
  ];
}

function failureTable(failures) {
  const columns = [
    {
      title: t('job.id'),
      cls: 'name',
      cell: ({ topic, id }) => [
        h('a', { href: `#/jobs/${enc(topic)}/${enc(id)}` }, id),
        ' ',
        h('span', { class: 'muted' }, topic),
      ],
    },
    { title: t('failures.when'), cls: 'due-at', cell: ({ time }) => moments(time) },
    { title: t('job.attempt'), cls: 'num', cell: ({ attempt }) => num(attempt) },
    {
      title: t('dest.name'),
      cls: 'clip-cell',
      minor: true,
      cell: ({ destination }) => h('span', { class: 'mono', title: destination }, destination),
    },
    {
      title: t('failures.error'),
      cls: 'clip-cell error-cell',
      cell: ({ error }) => h('span', { title: error }, error),
    },
  ];
  return plainTable(
    t('failures.title'),
    columns,
    failures,
    ({ time, topic, id }, at) => `${time} ${topic} ${id} ${at}`,
  );
}
