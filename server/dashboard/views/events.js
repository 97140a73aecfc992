// What happened: searched, followed as it happens, and summed up by hour and topic.

import { enc, get, getIfThere, now, query as params } from '../api.js';
import { button, card, clearButton, empty, field, icon, moment, segments, tag } from '../parts.js';
import { Table } from '../table.js';
import { h } from '../ui.js';
import { brief, num, span, t, time } from '../words.js';

const FILTERS = ['topic', 'id', 'kind', 'error'];
const KINDS = [
  'added',
  'replaced',
  'updated',
  'held',
  'unheld',
  'run',
  'redriven',
  'deleted',
  'handed_out',
  'touched',
  'delivered',
  'finished',
  'failed',
  'again',
  'released',
  'recalled',
  'timed_out',
  'lost',
  'died',
  'configured',
  'paused',
  'resumed',
  'emptied',
  'forgotten',
  'gap',
];
const BAD = ['failed', 'timed_out', 'lost', 'died', 'gap'];
const GOOD = ['finished', 'delivered'];
const PAGE = 100;
/** So many stay when it is followed; the older ones can be searched for. */
const SHOWN_MAX = 2_000;
/** So many calls are made for one page of what is rare. */
const CALLS_MAX = 20;

const HOUR = 3_600_000;
const HOURS = 24;
/** So many topics are told apart in the table of sums. */
const TOPICS = 20;
/** What a bar is made of, from below: its colour, and the kinds that it counts. */
const SERIES = [
  ['added', 1, ['added', 'replaced']],
  ['handed_out', 5, ['handed_out']],
  ['finished', 2, GOOD],
  ['bad', 'bad', BAD],
  ['other', 0, null],
];
const HEIGHT = 96;
/** A label at every so many bars. */
const LABEL = 4;

export function open({ query, signal, redraw, poll }) {
  const view = new Events(query, { signal, redraw, poll });
  return { title: t('menu.events'), draw: () => view.draw() };
}

class Events {
  constructor(asked, { signal, redraw, poll }) {
    Object.assign(this, {
      // An address may say anything.
      filter: Object.fromEntries(FILTERS.filter((name) => asked[name]).map((name) => [name, asked[name]])),
      signal,
      redraw,
      events: null,
      cursor: undefined,
      end: undefined,
      follows: true,
      isOff: false,
      trouble: '',
      hours: null,
      topics: null,
      // What is below the chart: the events one by one, or their sums.
      shows: asked.show === 'sums' ? 'sums' : 'list',
    });
    this.table = new Table({
      label: t('menu.events'),
      redraw,
      signal,
      keyOf: ({ key }) => key,
      rowClass: ({ kind }) => (BAD.includes(kind) ? 'bad-row' : ''),
      columns: this.columns(),
    });
    this.look = poll(2_000, () => this.ask());
    this.lookAtSums = poll(10_000, () => this.askSums());
  }

  /** The last ones at first, and then what has happened since. */
  async ask() {
    const { filter } = this;
    try {
      if (!this.events) await this.askLast(filter);
      else if (this.follows) await this.askNext(filter);
      this.trouble = '';
    } catch (error) {
      if (error.status < 400 || error.status >= 500) throw error;
      this.isOff = error.status === 404;
      this.events = [];
      this.trouble = error.message;
    }
    this.redraw();
  }

  async askLast(filter) {
    const page = await this.page({ ...filter, limit: PAGE });
    if (filter !== this.filter) return;
    Object.assign(this, { events: page.events, cursor: page.cursor, end: page.end });
  }

  async askNext(filter) {
    const page = await get(
      `/v1/events${params({ ...filter, order: 'oldest', cursor: this.end, limit: 1_000 })}`,
    );
    if (filter !== this.filter) return;
    this.end = page.cursor;
    this.events = [...page.events.map(named).reverse(), ...this.events];
    if (this.events.length > SHOWN_MAX) {
      this.events.length = SHOWN_MAX;
      this.cursor = undefined;
    }
  }

  async more() {
    const { filter } = this;
    const page = await this.page({ ...filter, limit: PAGE, cursor: this.cursor });
    if (filter !== this.filter) return;
    this.events = [...this.events, ...page.events];
    this.cursor = page.cursor;
    this.redraw();
  }

  /** A page, by several calls if the log is long and what is asked for is rare. */
  async page(asked) {
    const found = { events: [], cursor: asked.cursor, end: undefined };
    for (let calls = 0; calls < CALLS_MAX; calls += 1) {
      const limit = asked.limit - found.events.length;
      const page = await get(`/v1/events${params({ ...asked, limit, cursor: found.cursor })}`);
      this.signal.throwIfAborted();
      found.events.push(...page.events.map(named));
      found.cursor = page.cursor;
      found.end ??= page.end;
      if (!page.cursor || found.events.length >= asked.limit) break;
    }
    return found;
  }

  async askSums() {
    const { topic } = this.filter;
    const since = new Date(Math.floor(now() / HOUR) * HOUR - (HOURS - 1) * HOUR).toISOString();
    const ask = (by) => getIfThere(`/v1/events/sums${params({ topic, since, by, limit: 1_000 })}`);
    const [hours, topics] = await Promise.all([ask('hour'), ask('topic')]);
    if (topic !== this.filter.topic) return 0;
    this.hours = hours && { since: Date.parse(since), sums: hours.sums };
    this.topics = topics?.sums;
    this.redraw();
  }

  /** Other events to look at; the address says so, that it can be kept and sent. */
  set(filter) {
    this.filter = Object.fromEntries(
      Object.entries({ ...this.filter, ...filter }).filter(([, value]) => value),
    );
    Object.assign(this, { events: null, cursor: undefined, end: undefined, trouble: '' });
    if ('topic' in filter) Object.assign(this, { hours: null, topics: null });
    this.say();
    this.redraw();
    this.look();
    if ('topic' in filter) this.lookAtSums();
  }

  show(what) {
    this.shows = what;
    this.say();
    this.redraw();
  }

  say() {
    const show = this.shows === 'sums' ? 'sums' : '';
    history.replaceState(null, '', `#/events${params({ ...this.filter, show })}`);
  }

  columns() {
    const by = ({ caller: { front, address, key } }) =>
      h('span', { title: [address, key].filter(Boolean).join(' · ') || null }, t(`front.${front}`));
    return [
      {
        key: 'at',
        title: t('events.at'),
        cls: 'due-at',
        cell: ({ at }) => moment(at, { far: false }),
      },
      {
        key: 'kind',
        title: t('events.kind'),
        cls: 'state',
        cell: ({ kind }) =>
          tag(t(`event.${kind}`), BAD.includes(kind) ? 'bad' : GOOD.includes(kind) ? 'good' : ''),
      },
      {
        key: 'topic',
        title: t('topic'),
        cls: 'clip-cell',
        cell: ({ topic }) => topic && h('a', { href: `#/topics/${enc(topic)}`, title: topic }, topic),
      },
      { key: 'id', title: t('job.id'), cls: 'name', cell: jobLink },
      {
        key: 'attempt',
        title: t('job.attempt'),
        cls: 'num',
        minor: true,
        cell: ({ attempt }) => (attempt ? num(attempt) : ''),
      },
      {
        key: 'latency',
        title: t('events.latency'),
        cls: 'num',
        minor: true,
        cell: ({ latency_ms }) => (latency_ms === undefined ? '' : span(latency_ms)),
      },
      { key: 'by', title: t('events.by'), cls: 'by', minor: true, cell: by },
      { key: 'node', title: t('events.node'), cls: 'node-name', minor: true, cell: ({ node }) => node },
      {
        key: 'error',
        title: t('events.error'),
        cls: 'clip-cell wide',
        minor: true,
        cell: ({ error, status, count }) => [
          status && [tag(`HTTP ${status}`, status < 300 ? 'good' : 'bad'), ' '],
          count !== undefined && t('events.count', { count }),
          error && h('span', { title: error }, error),
        ],
      },
    ];
  }

  draw() {
    const head = h(
      'div',
      { class: 'head' },
      h('h1', { tabindex: '-1' }, t('menu.events')),
      !this.isOff &&
        h(
          'div',
          { class: 'head-actions' },
          segments(
            t('events.shows'),
            [
              ['list', t('events.shows_list')],
              ['sums', t('events.shows_sums')],
            ],
            this.shows,
            (what) => this.show(what),
          ),
          this.shows === 'list' &&
            button(t('events.follow'), () => this.toggle(), {
              kind: 'toggle',
              iconName: this.follows ? 'check' : 'play',
              'aria-pressed': String(this.follows),
            }),
        ),
    );
    if (this.isOff) return [head, empty(t('events.off'), h('p', { class: 'muted' }, t('events.off_text')))];
    const list = this.shows === 'list';
    return [head, this.sums(), list ? [this.filters(), this.found()] : this.byTopic()];
  }

  toggle() {
    this.follows = !this.follows;
    this.redraw();
    this.look();
  }

  filters() {
    const change = (name) => (event) => this.set({ [name]: event.target.value.trim() });
    const kinds = KINDS.map((kind) => [kind, t(`event.${kind}`)]);
    const isFiltered = FILTERS.some((name) => this.filter[name]);
    const clear = () => this.set(Object.fromEntries(FILTERS.map((name) => [name, ''])));
    // A link may ask for several.
    const several = this.filter.kind?.includes(',') && [[this.filter.kind, this.filter.kind]];
    return h(
      'form',
      {
        class: 'filters card',
        role: 'search',
        'aria-label': t('events.filters'),
        onsubmit: (event) => event.preventDefault(),
      },
      field('e-topic', t('topic'), {
        cls: 'grow',
        value: this.filter.topic ?? '',
        onchange: change('topic'),
      }),
      field('e-id', t('job.id'), { cls: 'grow', value: this.filter.id ?? '', onchange: change('id') }),
      field('e-kind', t('events.kind'), {
        options: [
          ['', t('events.any_kind')],
          [BAD.join(','), t('events.bad')],
          ...(several && several[0][0] !== BAD.join(',') ? several : []),
          ...kinds,
        ],
        value: this.filter.kind ?? '',
        onchange: change('kind'),
      }),
      field('e-error', t('events.error_has'), {
        cls: 'grow',
        value: this.filter.error ?? '',
        onchange: change('error'),
      }),
      isFiltered && clearButton(clear),
    );
  }

  found() {
    if (this.trouble) return h('div', { class: 'alarm' }, icon('warn'), h('p', {}, this.trouble));
    if (!this.events) return h('p', { class: 'muted loading' }, t('loading'));
    const more = this.cursor && button(t('events.more'), () => this.more());
    if (!this.events.length)
      return empty(t('events.none'), h('p', { class: 'muted' }, t('events.none_text')), more);
    return [
      h('div', { class: 'card flush events' }, this.table.draw(this.events)),
      more && h('p', { class: 'more' }, more),
    ];
  }

  sums() {
    if (!this.hours) return h('p', { class: 'muted loading' }, t('loading'));
    const bars = barsOf(this.hours);
    const all = bars.reduce((sum, { total }) => sum + total, 0);
    return card(
      t('events.day'),
      { extra: h('span', { class: 'muted num' }, t('events.sum', { count: all })) },
      chart(bars),
      h(
        'ul',
        { class: 'legend' },
        SERIES.map(([name, color], at) =>
          h(
            'li',
            {},
            h('i', { class: `swatch c${color}` }),
            h('span', {}, t(`events.series_${name}`)),
            h('span', { class: 'muted num' }, brief(bars.reduce((sum, { counts }) => sum + counts[at], 0))),
          ),
        ),
      ),
    );
  }

  byTopic() {
    if (!this.topics) return h('p', { class: 'muted loading' }, t('loading'));
    if (!this.topics.length)
      return empty(t('events.none'), h('p', { class: 'muted' }, t('events.none_text')));
    return card(t('events.by_topic'), { cls: 'below-card' }, topicTable(this.topics));
  }
}

let seen = 0;
/** A row keeps its place among those around it by a name of its own. */
function named(event) {
  seen += 1;
  return { ...event, key: seen };
}

function jobLink({ topic, id, number }) {
  if (topic && id !== undefined) return h('a', { href: `#/jobs/${enc(topic)}/${enc(id)}` }, id);
  return number === undefined ? '' : h('span', { class: 'muted' }, `#${number}`);
}

/** Each hour, the first first, with what happened in it by series. */
function barsOf({ since, sums }) {
  const byHour = new Map(sums.map((sum) => [Date.parse(sum.hour), sum]));
  return Array.from({ length: HOURS }, (_, at) => {
    const hour = since + at * HOUR;
    const sum = byHour.get(hour);
    const counted = (kinds) => kinds.reduce((all, kind) => all + (sum?.kinds[kind]?.count ?? 0), 0);
    const counts = SERIES.map(([, , kinds]) => (kinds ? counted(kinds) : 0));
    const total = sum?.count ?? 0;
    counts[counts.length - 1] = Math.max(0, total - counts.reduce((all, count) => all + count, 0));
    return { hour, total, counts };
  });
}

function chart(bars) {
  const most = Math.max(1, ...bars.map(({ total }) => total));
  const scale = HEIGHT / most;
  const bar = ({ hour, total, counts }, at) => {
    let below = HEIGHT;
    const pieces = counts.map((count, series) => {
      if (!count) return null;
      // What is there is seen, be it ever so few.
      const height = Math.max(count * scale, 1);
      below -= height;
      return h('rect', {
        class: `c${SERIES[series][1]}`,
        x: at + 0.08,
        y: Math.max(0, below).toFixed(2),
        width: 0.84,
        height: height.toFixed(2),
      });
    });
    const words = `${time(hour, 'near')}: ${num(total)}`;
    return h('g', { key: hour }, h('title', {}, words), pieces);
  };
  const busiest = bars.reduce((best, one) => (one.total > best.total ? one : best));
  const spoken = busiest.total
    ? t('events.spoken', { count: busiest.total, at: time(busiest.hour, 'near') })
    : t('events.none');
  // The bars are as wide as there is room; their labels are not drawn out with them.
  return [
    h(
      'svg',
      {
        class: 'sums',
        viewBox: `0 0 ${bars.length} ${HEIGHT}`,
        preserveAspectRatio: 'none',
        role: 'img',
        'aria-label': spoken,
      },
      bars.map(bar),
    ),
    h(
      'p',
      { class: 'sums-hours', 'aria-hidden': 'true' },
      bars
        .filter((_, at) => at % LABEL === 0)
        .map(({ hour }) => h('span', { key: hour }, time(hour, 'minute'))),
    ),
  ];
}

/** The busiest topics, and how it went. */
function topicTable(sums) {
  const shown = [...sums].sort((a, b) => b.count - a.count).slice(0, TOPICS);
  const count = (kinds, ...names) => names.reduce((all, name) => all + (kinds[name]?.count ?? 0), 0);
  const latency = (kinds, name) =>
    kinds[name]?.latency_ms === undefined ? '–' : span(kinds[name].latency_ms);
  const columns = [
    ['added', ({ kinds }) => num(count(kinds, 'added', 'replaced'))],
    ['handed_out', ({ kinds }) => num(count(kinds, 'handed_out'))],
    ['finished', ({ kinds }) => num(count(kinds, 'finished'))],
    ['failed', ({ kinds }) => num(count(kinds, 'failed', 'timed_out', 'lost'))],
    ['died', ({ kinds }) => num(count(kinds, 'died'))],
    ['late', ({ kinds }) => latency(kinds, 'handed_out')],
    ['took', ({ kinds }) => latency(kinds, 'finished')],
  ];
  const row = (sum) =>
    h(
      'tr',
      { key: sum.topic },
      h(
        'th',
        { scope: 'row', class: 'clip-cell' },
        sum.topic
          ? h('a', { href: `#/events${params({ topic: sum.topic })}`, title: sum.topic }, sum.topic)
          : h('span', { class: 'muted' }, t('events.no_topic')),
      ),
      columns.map(([name, cell]) => h('td', { class: 'num', key: name }, cell(sum))),
    );
  return h(
    'div',
    { class: 'scroll', tabindex: '0', role: 'group', 'aria-label': t('events.by_topic') },
    h(
      'table',
      { class: 'sum-table' },
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          h('th', { scope: 'col' }, t('topic')),
          columns.map(([name]) => h('th', { scope: 'col', class: 'num' }, t(`events.col_${name}`))),
        ),
      ),
      h('tbody', {}, shown.map(row)),
    ),
  );
}
