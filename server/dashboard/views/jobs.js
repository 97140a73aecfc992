// The jobs of a topic: filtered, chosen, and many of them put right at once.

import { enc, get, query as params, topicPath } from '../api.js';
import { BULK, bulk, reschedule } from '../actions.js';
import { askTopicsWithin, held, topics } from '../live.js';
import { badge, button, clearButton, empty, field, icon, moments, tag } from '../parts.js';
import { Table } from '../table.js';
import { h } from '../ui.js';
import { may } from '../who.js';
import { num, t } from '../words.js';

const STATES = ['delayed', 'ready', 'reserved', 'retry', 'held', 'dead', 'finished'];
const FILTERS = ['state', 'id_prefix', 'due_after', 'due_before', 'error'];
/** Those that a phone shows on demand. */
const EXTRA = ['due_after', 'due_before', 'error'];
const PAGE = 100;
/** More than one call can bring are not looked at again by themselves. */
const LIVE_MAX = 1_000;
/** A call looks at so many jobs at most, be there ever so few among them that fit. */
const LOOKED_AT = 10_000;
/** So many topics to choose from where none is chosen. */
const CHOICES = 50;

export function open({ query, signal, redraw, poll }) {
  const view = new Jobs(query, { signal, redraw, poll });
  return { title: t('menu.jobs'), draw: () => view.draw() };
}

class Jobs {
  constructor({ topic = '', ...asked }, { signal, redraw, poll }) {
    Object.assign(this, {
      topic,
      // An address may say anything.
      filter: Object.fromEntries(FILTERS.filter((name) => asked[name]).map((name) => [name, asked[name]])),
      signal,
      redraw,
      jobs: null,
      cursor: undefined,
      trouble: '',
      allMatch: false,
    });
    this.chosen = new Set();
    this.wanted = PAGE;
    this.table = new Table({
      label: t('menu.jobs'),
      redraw,
      signal,
      keyOf: ({ id }) => id,
      rowClass: ({ id }) => (this.chosen.has(id) ? 'chosen' : ''),
      columns: this.columns(),
    });
    this.look = poll(2_000, () => (this.topic ? this.ask() : this.askTopics()));
  }

  async askTopics() {
    await askTopicsWithin(5_000, this.signal);
    if (topics.length === 1) return this.set({ topic: topics[0].topic });
    this.redraw();
    return 10_000;
  }

  /**
   * As many as are shown, anew; nothing is asked for by itself beyond what one call can bring. What
   * takes long is not asked for every other second.
   */
  async ask() {
    if (this.wanted > LIVE_MAX) return undefined;
    const { wanted } = this;
    const begun = performance.now();
    try {
      const page = await this.seek({ jobs: [] }, wanted, !this.jobs);
      if (!page || wanted > this.wanted) return 0;
      this.take(page.jobs, page.cursor);
    } catch (error) {
      if (error.status < 400 || error.status >= 500) throw error;
      this.jobs = [];
      this.trouble = error.message;
    }
    this.redraw();
    return Math.max(2_000, (performance.now() - begun) * 10);
  }

  /**
   * Goes on from some until there are so many, by several calls if few of the topic's jobs fit; none
   * if others are asked for meanwhile. `isFirst` shows what is found as it is found.
   */
  async seek({ jobs, cursor }, wanted, isFirst) {
    const { topic, filter } = this;
    for (let calls = 1; ; calls += 1) {
      const limit = Math.min(wanted - jobs.length, LIVE_MAX);
      const page = await get(`${topicPath(topic)}/jobs${params({ ...filter, limit, cursor })}`);
      this.signal.throwIfAborted();
      if (topic !== this.topic || filter !== this.filter) return null;
      [jobs, cursor] = [[...jobs, ...page.jobs], page.cursor];
      const isDone = !cursor || jobs.length >= wanted;
      this.lookedAt = isDone ? 0 : calls * LOOKED_AT;
      if (isDone) return { jobs, cursor };
      if (isFirst) this.take(jobs, cursor);
      this.redraw();
    }
  }

  take(jobs, cursor) {
    this.jobs = jobs;
    this.cursor = cursor;
    this.trouble = '';
    const there = new Set(jobs.map(({ id }) => id));
    for (const id of this.chosen) if (!there.has(id)) this.chosen.delete(id);
  }

  async more() {
    if (this.wanted < LIVE_MAX) {
      this.wanted = this.wanted * 2 > LIVE_MAX / 2 ? LIVE_MAX : this.wanted * 2;
      return this.look();
    }
    this.wanted = Infinity;
    const page = await this.seek(this, this.jobs.length + LIVE_MAX, false);
    if (page) this.take(page.jobs, page.cursor);
    this.redraw();
  }

  /** Other jobs to look at; the address says so, that it can be kept and sent. */
  set({ topic = this.topic, ...filter }) {
    this.topic = topic;
    this.filter = Object.fromEntries(
      Object.entries({ ...this.filter, ...filter }).filter(([, value]) => value),
    );
    Object.assign(this, { jobs: null, cursor: undefined, wanted: PAGE, allMatch: false, trouble: '' });
    this.lookedAt = 0;
    this.chosen.clear();
    history.replaceState(null, '', `#/jobs${params({ topic: this.topic, ...this.filter })}`);
    this.redraw();
    this.look();
  }

  columns() {
    const choose = ({ id }) => {
      if (!may('add', this.topic)) return null;
      const toggle = (event) => {
        if (event.target.checked) this.chosen.add(id);
        else this.chosen.delete(id);
        this.allMatch = false;
        this.redraw();
      };
      return h('input', {
        type: 'checkbox',
        checked: this.allMatch || this.chosen.has(id),
        'aria-label': t('jobs.choose', { id }),
        onchange: toggle,
      });
    };
    const all = () => {
      if (!may('add', this.topic)) return null;
      const some = this.allMatch || this.chosen.size > 0;
      const toggle = () => {
        this.allMatch = false;
        if (some) this.chosen.clear();
        else this.jobs.forEach(({ id }) => this.chosen.add(id));
        this.redraw();
      };
      const whole = this.allMatch || (this.jobs?.length > 0 && this.chosen.size === this.jobs.length);
      return h(
        'label',
        {},
        h('input', {
          type: 'checkbox',
          checked: whole,
          indeterminate: some && !whole,
          'aria-label': t('jobs.choose_all'),
          onchange: toggle,
        }),
        h('span', { 'aria-hidden': 'true' }, t('jobs.all_shown')),
      );
    };
    const link = ({ topic, id, repeat, target }) => [
      h('a', { href: `#/jobs/${enc(topic)}/${enc(id)}` }, id),
      repeat && h('span', { class: 'mark', title: t('jobs.repeats') }, icon('repeat')),
      target && h('span', { class: 'mark', title: target }, icon('delivery')),
    ];
    const self = this;
    return [
      {
        key: 'choose',
        get title() {
          return self.jobs ? all() : '';
        },
        cls: 'check',
        cell: choose,
      },
      { key: 'id', title: t('job.id'), cls: 'name', cell: link },
      { key: 'state', title: t('job.state'), cls: 'state', cell: ({ state }) => badge(state) },
      { key: 'due', title: t('job.due'), cls: 'due-at', cell: ({ due }) => moments(due) },
      {
        key: 'attempt',
        title: t('job.attempt'),
        cls: 'num',
        cell: ({ attempt }) => h('span', { class: attempt ? '' : 'zero' }, num(attempt)),
      },
      {
        key: 'priority',
        title: t('job.priority'),
        cls: 'num',
        minor: true,
        cell: ({ priority }) => num(priority),
      },
      {
        key: 'error',
        title: t('job.last_error'),
        cls: 'clip-cell',
        minor: true,
        cell: ({ last_error }) => last_error && h('span', { title: last_error }, last_error),
      },
    ];
  }

  draw() {
    return [
      h(
        'div',
        { class: 'head' },
        h('h1', { tabindex: '-1' }, t('menu.jobs')),
        this.topic && h('a', { class: 'muted', href: `#/topics/${enc(this.topic)}` }, t('jobs.to_topic')),
        h(
          'div',
          { class: 'head-actions' },
          may('add', this.topic || undefined) &&
            h(
              'a',
              { class: 'button primary', href: `#/add${params({ topic: this.topic })}` },
              icon('add'),
              h('span', {}, t('menu.add')),
            ),
        ),
      ),
      this.filters(),
      this.topic ? this.found() : this.chooser(),
    ];
  }

  filters() {
    const change = (name) => (event) => this.set({ [name]: event.target.value.trim() });
    const moment = (name) => (event) =>
      this.set({ [name]: event.target.value ? new Date(event.target.value).toISOString() : '' });
    const states = [['', t('jobs.any_state')], ...STATES.map((state) => [state, t(`state.${state}`)])];
    const isExtra = EXTRA.some((name) => this.filter[name]);
    const unfold = () => {
      this.unfolded = !this.unfolded;
      this.redraw();
    };
    const typed = async (event) => {
      const { topics: some } = await get(
        `/v1/topics${params({ prefix: event.target.value, limit: 20 })}`,
      ).catch(() => ({ topics: [] }));
      this.hints = some.map(({ topic }) => topic);
      this.redraw();
    };
    return h(
      'form',
      {
        class: `filters card ${this.unfolded || isExtra ? '' : 'folded'}`,
        role: 'search',
        'aria-label': t('jobs.filters'),
        onsubmit: (event) => event.preventDefault(),
      },
      field('f-topic', t('topic'), {
        value: this.topic,
        list: 'topic-hints',
        placeholder: t('jobs.topic_hint'),
        onchange: (event) => event.target.value.trim() && this.set({ topic: event.target.value.trim() }),
        oninput: typed,
        cls: 'grow whole',
      }),
      h(
        'datalist',
        { id: 'topic-hints' },
        (this.hints ?? []).map((name) => h('option', { key: name, value: name })),
      ),
      field('f-state', t('job.state'), {
        options: states,
        value: this.filter.state ?? '',
        onchange: change('state'),
      }),
      field('f-id', t('jobs.id_prefix'), {
        value: this.filter.id_prefix ?? '',
        onchange: change('id_prefix'),
      }),
      field('f-after', t('jobs.due_after'), {
        type: 'datetime-local',
        cls: 'moment extra',
        value: local(this.filter.due_after),
        onchange: moment('due_after'),
      }),
      field('f-before', t('jobs.due_before'), {
        type: 'datetime-local',
        cls: 'moment extra',
        value: local(this.filter.due_before),
        onchange: moment('due_before'),
      }),
      field('f-error', t('jobs.error'), {
        value: this.filter.error ?? '',
        onchange: change('error'),
        cls: 'grow whole extra',
      }),
      !isExtra &&
        button(t(this.unfolded ? 'jobs.fewer_filters' : 'jobs.more_filters'), unfold, {
          kind: 'quiet unfold',
          'aria-expanded': String(Boolean(this.unfolded)),
        }),
      this.isFiltered() && clearButton(() => this.clear()),
    );
  }

  isFiltered() {
    return FILTERS.some((name) => this.filter[name]);
  }

  clear() {
    this.set(Object.fromEntries(FILTERS.map((name) => [name, ''])));
  }

  chooser() {
    if (!topics) return h('p', { class: 'muted loading' }, t('loading'));
    if (!topics.length)
      return empty(
        t('jobs.none_yet'),
        h('p', { class: 'muted' }, t('jobs.none_yet_text')),
        may('add') && h('p', {}, h('a', { class: 'button primary', href: '#/add' }, t('menu.add'))),
      );
    const most = [...topics].sort((a, b) => held(b.counts) - held(a.counts)).slice(0, CHOICES);
    return [
      h('p', { class: 'muted' }, t('jobs.choose_topic')),
      h(
        'ul',
        { class: 'choices-list card flush' },
        most.map(({ topic, counts }) =>
          h(
            'li',
            { key: topic },
            h(
              'a',
              { href: `#/jobs${params({ topic })}` },
              h('span', { class: 'clip' }, topic),
              h('span', { class: 'muted num' }, t('jobs.count', { count: held(counts) })),
            ),
          ),
        ),
      ),
    ];
  }

  found() {
    if (this.trouble) return empty(t('jobs.refused'), h('p', { class: 'muted' }, this.trouble));
    if (!this.jobs) return h('p', { class: 'muted loading' }, t('loading'));
    const seeking = this.lookedAt > 0 && t('jobs.seeking', { count: this.lookedAt });
    if (!this.jobs.length && seeking) return h('p', { class: 'muted loading num' }, seeking);
    if (!this.jobs.length)
      return empty(
        this.isFiltered() ? t('jobs.nothing') : t('jobs.nothing_here'),
        this.isFiltered() &&
          h(
            'p',
            {},
            button(t('jobs.clear'), () => this.clear()),
          ),
      );
    return [
      this.bar(),
      h('div', { class: 'card flush' }, this.table.draw(this.jobs)),
      h(
        'div',
        { class: 'below' },
        h('span', { class: 'muted num' }, t('jobs.shown', { count: this.jobs.length })),
        seeking
          ? h('span', { class: 'muted num' }, seeking)
          : this.cursor && button(t('jobs.more'), () => this.more()),
        this.wanted > LIVE_MAX && [
          tag(t('jobs.not_live'), 'warn'),
          button(t('jobs.refresh'), () => this.set({}), { kind: 'quiet' }),
        ],
      ),
    ];
  }

  /** What can be done to those chosen. */
  bar() {
    if (!may('add', this.topic)) return null;
    const count = this.chosen.size;
    const whole = count === this.jobs.length && this.cursor && !this.allMatch;
    if (!count && !this.allMatch)
      return h(
        'div',
        { class: 'bulk idle' },
        h('span', { class: 'muted' }, t('jobs.hint')),
        button(t('jobs.all_match'), () => this.chooseAll(), { kind: 'quiet small' }),
      );
    const which = this.allMatch ? { where: this.filter } : { ids: [...this.chosen] };
    const then = async (action) => {
      if ((await action) === undefined) return;
      this.chosen.clear();
      this.allMatch = false;
      this.look();
      this.redraw();
    };
    const verbs = BULK.filter(
      (verb) =>
        verb !== 'redrive' ||
        this.filter.state === 'dead' ||
        this.jobs.some(({ id, state }) => state === 'dead' && (this.allMatch || this.chosen.has(id))),
    );
    const act = (verb) =>
      button(t(`bulk.${verb}`), () => then(bulk(verb, this.topic, which)), {
        kind: verb === 'delete' ? 'small danger-quiet' : 'small',
      });
    const clear = () => {
      this.chosen.clear();
      this.allMatch = false;
      this.redraw();
    };
    return h(
      'div',
      { class: 'bulk', role: 'toolbar', 'aria-label': t('jobs.bulk') },
      h('strong', { class: 'num' }, this.allMatch ? t('jobs.all_chosen') : t('jobs.chosen', { count })),
      whole && button(t('jobs.all_match'), () => this.chooseAll(), { kind: 'quiet small' }),
      verbs.slice(0, -1).map(act),
      button(t('bulk.reschedule'), () => then(reschedule(this.topic, which)), { kind: 'small' }),
      act('delete'),
      button(t('jobs.none'), clear, { kind: 'quiet small none' }),
    );
  }

  chooseAll() {
    this.chosen.clear();
    this.allMatch = true;
    this.redraw();
  }
}

/** A moment as an input of the time here takes it. */
function local(text) {
  if (!text) return '';
  const at = new Date(text);
  return new Date(at - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}
