// All topics: sorted, filtered, quick with ten thousand of them.

import { enc } from '../api.js';
import { askTopics, topics } from '../live.js';
import { copyable, empty, tag } from '../parts.js';
import { Table } from '../table.js';
import { h } from '../ui.js';
import { num, rate, t } from '../words.js';

const COUNTS = ['delayed', 'ready', 'reserved', 'retry', 'held', 'dead', 'finished'];

export function open({ query, signal, redraw, poll }) {
  let text = '';
  const count = (state) => ({
    key: state,
    title: t(`state.${state}`),
    // A phone shows what is not 0, and what is sorted by; this one in any case.
    cls: state === 'delayed' ? 'num kept' : 'num',
    sort: ({ counts }) => counts[state],
    cell: ({ counts }) => h('span', { class: counts[state] ? `n-${state}` : 'zero' }, num(counts[state])),
  });
  const speed = (key, of) => ({
    key,
    title: t(`topics.${key}`),
    cls: 'num',
    sort: of,
    cell: (topic) => h('span', { class: of(topic) > 0 ? '' : 'zero' }, rate(of(topic))),
  });
  const table = new Table({
    label: t('menu.topics'),
    redraw,
    signal,
    keyOf: ({ topic }) => topic,
    order: COUNTS.includes(query.sort) ? { key: query.sort, down: true } : { key: 'topic', down: false },
    columns: [
      {
        key: 'topic',
        title: t('topic'),
        cls: 'name',
        sort: ({ topic }) => topic,
        cell: ({ topic, paused }) => [
          h('a', { href: `#/topics/${enc(topic)}` }, topic),
          paused && [' ', tag(t('topic.paused'), 'warn')],
        ],
      },
      ...COUNTS.map(count),
      speed('in', ({ inRate }) => inRate),
      speed('out', ({ outRate }) => outRate),
    ],
  });
  poll(2_000, async () => {
    const pause = await askTopics(signal);
    redraw();
    return pause;
  });
  const type = (event) => {
    text = event.target.value.trim().toLowerCase();
    redraw();
  };
  const draw = () => {
    const shown =
      topics &&
      table.sorted(text ? topics.filter(({ topic }) => topic.toLowerCase().includes(text)) : topics);
    return [
      h(
        'div',
        { class: 'head' },
        h('h1', { tabindex: '-1' }, t('menu.topics')),
        topics &&
          h(
            'span',
            { class: 'muted num' },
            text
              ? t('topics.some', { shown: num(shown.length), count: topics.length })
              : t('topics.count', { count: topics.length }),
          ),
        h(
          'div',
          { class: 'head-actions' },
          h('input', {
            type: 'search',
            class: 'filter',
            placeholder: t('topics.filter'),
            'aria-label': t('topics.filter'),
            oninput: type,
          }),
        ),
      ),
      !topics && h('p', { class: 'muted loading' }, t('loading')),
      topics?.length === 0 && nothingYet(),
      topics?.length > 0 &&
        (shown.length
          ? h('div', { class: 'card flush' }, table.draw(shown))
          : empty(t('topics.none', { text }))),
    ];
  };
  return { title: t('menu.topics'), draw };
}

function nothingYet() {
  const command = `curl ${location.origin}/v1/jobs -d '{"topic":"order.close","delay":"30m","body":{"order":1001}}'`;
  return empty(t('topics.empty'), h('p', { class: 'muted' }, t('topics.empty_text')), copyable(command));
}
