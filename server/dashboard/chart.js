// What falls due when: bars by time, stacked by topic, that move with the clock.

import { get, now, poll, query } from './api.js';
import { h } from './ui.js';
import { brief, num, t, time } from './words.js';
import { segments } from './parts.js';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/**
 * Each: how long a bar is, how many are in sight, how many are asked for beyond that, to move into sight,
 * labels at every so many ms, and how often to ask.
 */
export const RANGES = {
  minute: { step: SECOND, bars: 60, ahead: 32, label: 10 * SECOND, form: 'second', every: 2_000 },
  hour: { step: MINUTE, bars: 60, ahead: 3, label: 10 * MINUTE, form: 'minute', every: 4_000 },
  day: { step: HOUR / 2, bars: 48, ahead: 2, label: 4 * HOUR, form: 'minute', every: 8_000 },
  month: { step: DAY, bars: 30, ahead: 2, label: 5 * DAY, form: 'day', every: 10_000 },
};
/** Of the server's time a chart takes one part in so many at most, if that is a look each half minute. */
const SHARE = 100;
const EVERY_MAX = 30_000;
const HEIGHT = 208;
const LEFT = 44;
const BOTTOM = 22;
const TOP = 8;
/** About how wide a label is. */
const LABEL = 40;
const KEY = 'linger.range';
const still = matchMedia('(prefers-reduced-motion: reduce)');

/** A chart of one or several topics; `whose` answers their names, the rest is `other`. */
export class DueChart {
  constructor({ signal, redraw, whose, onpick }) {
    Object.assign(this, { redraw, whose, onpick, signal, width: 0, data: null, at: null, hover: null });
    this.range = localStorage.getItem(KEY) in RANGES ? localStorage.getItem(KEY) : 'hour';
    this.colors = new Map();
    this.observer = new ResizeObserver(([entry]) => {
      this.width = Math.floor(entry.contentRect.width);
      redraw();
    });
    signal.addEventListener('abort', () => this.observer.disconnect());
    this.ask = poll(2_000, signal, () => this.look());
    this.move();
  }

  /** Its width, from now on; an element from before would tell that it has none. */
  watch(element) {
    this.observer.disconnect();
    this.observer.observe(element);
  }

  choose(range) {
    this.range = range;
    localStorage.setItem(KEY, range);
    this.data = this.hover = null;
    this.redraw();
    this.ask();
  }

  async look() {
    const range = this.range;
    const { step, bars, ahead, every } = RANGES[range];
    // Whole bars, and days that begin at midnight here.
    const zone = step === DAY ? new Date(now()).getTimezoneOffset() * MINUTE : 0;
    const from = Math.floor((now() - zone) / step) * step + zone;
    const buckets = bars + ahead;
    const span = {
      from: new Date(from).toISOString(),
      to: new Date(from + buckets * step).toISOString(),
      buckets,
    };
    const ask = async (topic) => {
      const begun = performance.now();
      const { buckets: counted } = await get(`/v1/due${query({ ...span, topic })}`);
      return { counts: counted.map(({ count }) => count), took: performance.now() - begun };
    };
    const { topics, isAll } = this.whose();
    const each = await Promise.all(topics.map((topic) => ask(topic)));
    // After the others, which would have to wait for it.
    const all = isAll ? null : await ask();
    if (range !== this.range) return 0;
    const series = topics.map((topic, at) => ({
      topic,
      color: this.colorOf(topic, topics),
      counts: each[at].counts,
    }));
    const known = (bar) => series.reduce((sum, { counts }) => sum + counts[bar], 0);
    if (all)
      series.push({
        topic: null,
        color: 0,
        counts: all.counts.map((count, bar) => Math.max(0, count - known(bar))),
      });
    this.data = { from, step, series, form: RANGES[range].form };
    this.redraw();
    // The sum over very many topics is work for the server; what one topic takes is the way there.
    const cost = all ? all.took - Math.min(all.took, ...each.map(({ took }) => took)) : 0;
    return Math.min(EVERY_MAX, Math.max(every, cost * SHARE));
  }

  /** A topic keeps its colour while it is among those shown. */
  colorOf(topic, topics) {
    for (const gone of [...this.colors.keys()].filter((name) => !topics.includes(name)))
      this.colors.delete(gone);
    if (!this.colors.has(topic)) {
      const taken = new Set(this.colors.values());
      this.colors.set(topic, [1, 2, 3, 4, 5, 6, 7].find((color) => !taken.has(color)) ?? 7);
    }
    return this.colors.get(topic);
  }

  /** Moves the bars between two looks; a bar of a minute or more does not visibly move. */
  move() {
    if (this.signal.aborted) return;
    if (this.range === 'minute' && this.data && !still.matches)
      this.group?.setAttribute('transform', this.shift());
    requestAnimationFrame(() => this.move());
  }

  shift() {
    const gone = Math.min(RANGES[this.range].ahead, (now() - this.data.from) / this.data.step);
    return `translate(${(LEFT - gone * this.barWidth()).toFixed(2)},0)`;
  }

  barWidth() {
    return (this.width - LEFT) / RANGES[this.range].bars;
  }

  draw() {
    const ranges = Object.keys(RANGES).map((name) => [name, t(`due.${name}`)]);
    return h(
      'section',
      { class: 'card due', 'aria-label': t('due.title') },
      h(
        'div',
        { class: 'due-head' },
        h('h2', {}, t('due.title')),
        h('p', { class: 'due-sum' }, this.summary()),
        segments(t('due.range'), ranges, this.range, (name) => this.choose(name)),
      ),
      h(
        'div',
        {
          class: 'due-plot',
          ref: (element) => this.watch(element),
          onpointermove: (event) => this.point(event),
          onpointerleave: () => this.point(null),
          onclick: () => this.pick(),
        },
        this.width > 0 && this.plot(),
        this.data &&
          this.sums().every((sum) => sum === 0) &&
          h('p', { class: 'due-empty muted', 'aria-hidden': 'true' }, t('due.nothing')),
        this.hover !== null && this.data && this.tip(),
      ),
      this.legend(),
    );
  }

  sums() {
    const { bars } = RANGES[this.range];
    return this.data.series.map(({ counts }) => counts.slice(0, bars).reduce((sum, count) => sum + count, 0));
  }

  summary() {
    if (!this.data) return ' ';
    const count = this.sums().reduce((sum, count) => sum + count, 0);
    return t(`due.sum_${this.range}`, { count });
  }

  legend() {
    const sums = this.data ? this.sums() : [];
    const shown = this.data?.series
      .map((one, at) => ({ ...one, sum: sums[at] }))
      .filter(({ sum, topic }) => sum > 0 || topic);
    if (!shown || (shown.length < 2 && !shown.some(({ topic }) => topic === null))) return null;
    const name = ({ topic }) =>
      topic === null
        ? h('span', { class: 'muted' }, t('due.other'))
        : h('a', { href: `#/topics/${encodeURIComponent(topic)}` }, topic);
    return h(
      'ul',
      { class: 'legend' },
      shown.map((one) =>
        h(
          'li',
          {},
          h('i', { class: `swatch c${one.color}` }),
          name(one),
          h('span', { class: 'muted num' }, brief(one.sum)),
        ),
      ),
    );
  }

  plot() {
    const series = this.data?.series ?? [];
    const bars = RANGES[this.range].bars + RANGES[this.range].ahead;
    const totals = Array.from({ length: bars }, (_, bar) =>
      series.reduce((sum, { counts }) => sum + counts[bar], 0),
    );
    // By those in sight and about to be.
    const ticks = niceTicks(Math.max(...totals.slice(0, RANGES[this.range].bars + 3), 1));
    const top = ticks.at(-1);
    const y = (count) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - count / top);
    const grid = ticks.map((tick) => [
      h('line', { class: 'grid', x1: LEFT, x2: this.width, y1: y(tick), y2: y(tick) }),
      h('text', { class: 'axis', x: LEFT - 8, y: y(tick) + 4, 'text-anchor': 'end' }, brief(tick)),
    ]);
    return h(
      'svg',
      { width: this.width, height: HEIGHT, role: 'img', 'aria-label': this.spoken(totals) },
      h(
        'defs',
        {},
        h(
          'clipPath',
          { id: 'plot' },
          h('rect', { x: LEFT, y: 0, width: Math.max(0, this.width - LEFT), height: HEIGHT }),
        ),
      ),
      grid,
      this.data &&
        h(
          'g',
          { 'clip-path': 'url(#plot)' },
          h(
            'g',
            { ref: (element) => (this.group = element), transform: this.shift() },
            this.bars(totals, y),
            this.labels(),
          ),
        ),
    );
  }

  bars(totals, y) {
    const { from, step, series } = this.data;
    const width = this.barWidth();
    const gap = Math.min(2, width * 0.2);
    return totals.map((total, bar) => {
      let below = 0;
      const pieces = series.map(({ counts, color }) => {
        const count = counts[bar];
        if (!count) return null;
        below += count;
        // What is there is seen, be it ever so few.
        const height = Math.max(y(below - count) - y(below), 1.5);
        return h('rect', {
          class: `c${color}`,
          x: (bar * width + gap / 2).toFixed(2),
          y: y(below).toFixed(2),
          width: (width - gap).toFixed(2),
          height: height.toFixed(2),
        });
      });
      return h(
        'g',
        { key: from + bar * step, class: bar === this.hover ? 'bar hover' : 'bar' },
        total > 0 && pieces,
      );
    });
  }

  labels() {
    const { from, step } = this.data;
    const { bars, ahead, label, form } = RANGES[this.range];
    const zone = new Date(from).getTimezoneOffset() * MINUTE;
    const first = Math.ceil((from - zone) / label) * label + zone;
    const gone = (now() - from) / step;
    const all = [];
    for (let at = first; at < from + (bars + ahead) * step; at += label) {
      const x = ((at - from) / step) * this.barWidth();
      // Half a label says nothing.
      const place = x - gone * this.barWidth();
      if (place < LABEL / 2 || place > this.width - LEFT - LABEL / 2) continue;
      all.push(
        h(
          'text',
          { key: `t${at}`, class: 'axis', x: x.toFixed(1), y: HEIGHT - 5, 'text-anchor': 'middle' },
          time(at, form),
        ),
      );
    }
    return all;
  }

  spoken(totals) {
    const most = Math.max(...totals.slice(0, RANGES[this.range].bars));
    if (!this.data || most === 0) return t('due.nothing');
    const at = this.data.from + totals.indexOf(most) * this.data.step;
    return `${this.summary()} ${t('due.most', { count: most, at: time(at, 'near') })}`;
  }

  point(event) {
    const box = event?.currentTarget.getBoundingClientRect();
    const gone = this.data ? (now() - this.data.from) / this.data.step : 0;
    const bar = event ? Math.floor((event.clientX - box.left - LEFT) / this.barWidth() + gone) : -1;
    const hover =
      bar >= 0 && bar < RANGES[this.range].bars + RANGES[this.range].ahead && event.clientX - box.left > LEFT
        ? bar
        : null;
    if (hover === this.hover) return;
    this.hover = hover;
    this.redraw();
  }

  pick() {
    if (this.hover === null || !this.data) return;
    const from = this.data.from + this.hover * this.data.step;
    this.onpick?.(new Date(from), new Date(from + this.data.step));
  }

  tip() {
    const { from, step, series } = this.data;
    const at = from + this.hover * step;
    const rows = series
      .map(({ topic, color, counts }) => ({ topic, color, count: counts[this.hover] }))
      .filter(({ count }) => count);
    const left = LEFT + (this.hover - (now() - from) / step + 0.5) * this.barWidth();
    const total = rows.reduce((sum, { count }) => sum + count, 0);
    return h(
      'div',
      { class: left > this.width / 2 ? 'tip left' : 'tip', style: { left: `${left.toFixed(0)}px` } },
      h(
        'p',
        { class: 'tip-time' },
        time(at, step === DAY ? 'day' : 'near'),
        h('strong', { class: 'num' }, num(total)),
      ),
      rows.map(({ topic, color, count }) =>
        h(
          'p',
          {},
          h('i', { class: `swatch c${color}` }),
          h('span', { class: 'tip-name' }, topic ?? t('due.other')),
          h('span', { class: 'num' }, num(count)),
        ),
      ),
    );
  }
}

/** Round numbers from 0 up to one that is not below the most: at most five, and whole. */
export function niceTicks(most) {
  const rough = most / 4;
  const size = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
  const step = [1, 2, 5, 10]
    .map((factor) => factor * size)
    .find((step) => step >= rough && Number.isInteger(step));
  return Array.from({ length: Math.ceil(most / step) + 1 }, (_, at) => at * step);
}
