// Who shares the store, and who sees to which part of it.

import { get } from '../api.js';
import { card, empty, facts, icon, moment, tag } from '../parts.js';
import { h } from '../ui.js';
import { num, t } from '../words.js';

/** The map: so many cells a line. */
const ACROSS = 32;
const CELL = 18;
const COLORS = 7;

export function open({ redraw, poll }) {
  let answer;
  let chosen = null;
  poll(2_000, async () => {
    answer = await get('/v1/nodes');
    redraw();
  });
  const choose = (number) => {
    chosen = number;
    redraw();
  };
  const draw = () => [
    h(
      'div',
      { class: 'head' },
      h('h1', { tabindex: '-1' }, t('menu.nodes')),
      answer && h('span', { class: 'muted' }, t('server.alive', { count: answer.nodes.length })),
    ),
    !answer && h('p', { class: 'muted loading' }, t('loading')),
    answer?.warning && h('div', { class: 'alarm' }, icon('warn'), h('p', {}, answer.warning)),
    answer &&
      h(
        'div',
        { class: 'nodes' },
        answer.nodes.map((node, at) =>
          nodeCard(node, colorOf(answer.nodes, node.id), answer.buckets.length, at),
        ),
      ),
    answer &&
      card(
        t('buckets.title'),
        {},
        answer.buckets.length
          ? map(answer, chosen, choose)
          : empty(t('buckets.none'), h('p', { class: 'muted' }, t('buckets.none_text'))),
      ),
  ];
  return { title: t('menu.nodes'), draw };
}

/** By the order of their ids, so that a colour stays while nobody comes or goes. */
function colorOf(nodes, id) {
  const order = nodes.map((node) => node.id).sort();
  return (order.indexOf(id) % COLORS) + 1;
}

function nodeCard(node, color, buckets, at) {
  return h(
    'section',
    { key: node.id, class: 'card node', 'aria-label': node.name },
    h(
      'header',
      { class: 'card-head' },
      h('h2', {}, buckets > 0 && h('i', { class: `swatch c${color}` }), node.name || node.id),
      node.this && tag(t('nodes.this'), 'accent'),
    ),
    h(
      'p',
      { class: 'roles' },
      node.roles.map((role) => tag(t(`role.${role}`))),
    ),
    facts([
      [t('nodes.group'), node.group],
      [t('nodes.weight'), num(node.weight)],
      buckets > 0 && [t('nodes.buckets'), num(node.bucket_count)],
      [t('nodes.load'), node.threshold ? `${num(node.load)} / ${num(node.threshold)}` : num(node.load)],
      node.address && [t('nodes.address'), h('code', {}, node.address)],
      [t('nodes.version'), node.version],
      [t('nodes.started'), moment(node.started)],
      [t('nodes.heard'), moment(node.heard)],
      [t('nodes.id'), h('code', {}, node.id)],
    ]),
  );
}

function map({ nodes, buckets }, chosen, choose) {
  const most = Math.max(1, ...buckets.map(({ load }) => load));
  const down = Math.ceil(buckets.length / ACROSS);
  const names = new Map(nodes.map(({ id, name }) => [id, name]));
  const cell = ({ number, holder, load }) => {
    const color = holder ? `c${colorOf(nodes, holder)}` : 'nobody';
    const [x, y] = [(number % ACROSS) * CELL, Math.floor(number / ACROSS) * CELL];
    // A busy bucket is darker, and one at rest can still be told by its holder.
    const strength = holder ? 0.35 + 0.65 * Math.sqrt(load / most) : 1;
    return h('rect', {
      key: number,
      class: color,
      x: x + 1,
      y: y + 1,
      width: CELL - 2,
      height: CELL - 2,
      rx: 3,
      'fill-opacity': strength.toFixed(2),
      onpointerenter: () => choose(number),
    });
  };
  const bucket = buckets.find(({ number }) => number === chosen);
  const free = buckets.filter(({ holder }) => !holder).length;
  return [
    h(
      'svg',
      {
        class: 'map',
        viewBox: `0 0 ${ACROSS * CELL} ${down * CELL}`,
        role: 'img',
        'aria-label': t('buckets.spoken', { count: buckets.length, nodes: nodes.length, free }),
        onpointerleave: () => choose(null),
      },
      buckets.map(cell),
    ),
    h(
      'ul',
      { class: 'legend' },
      nodes
        .filter((node) => node.bucket_count > 0)
        .map((node) =>
          h(
            'li',
            { key: node.id },
            h('i', { class: `swatch c${colorOf(nodes, node.id)}` }),
            h('span', {}, node.name),
            h('span', { class: 'muted num' }, num(node.bucket_count)),
          ),
        ),
      free > 0 &&
        h(
          'li',
          {},
          h('i', { class: 'swatch nobody' }),
          h('span', {}, t('buckets.nobody')),
          h('span', { class: 'muted num' }, num(free)),
        ),
    ),
    h(
      'p',
      { class: 'muted map-line' },
      bucket
        ? t(bucket.holder ? 'buckets.one' : 'buckets.one_free', {
            number: bucket.number,
            name: names.get(bucket.holder) ?? bucket.holder,
            load: bucket.load,
            fence: bucket.fence ?? '–',
          })
        : t('buckets.hint'),
    ),
  ];
}
