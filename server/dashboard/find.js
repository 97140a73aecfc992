// One box that finds a job by its id, and topics by how they begin, from anywhere.

import { enc, get, query } from './api.js';
import { badge, icon } from './parts.js';
import { h } from './ui.js';
import { t } from './words.js';

/** How long people may think between two letters. */
const PAUSE_MS = 150;
const TOPICS = 5;
const JOBS = 20;

export class Finder {
  constructor(redraw) {
    Object.assign(this, { redraw, text: '', found: null, open: false, chosen: 0, asked: 0 });
  }

  focus() {
    this.input.focus();
    this.input.select();
  }

  draw() {
    const options = this.open ? this.options() : [];
    return h(
      'div',
      { class: 'find', role: 'search' },
      icon('find'),
      h('input', {
        type: 'search',
        id: 'find',
        placeholder: t('find.placeholder'),
        'aria-label': t('find.label'),
        role: 'combobox',
        'aria-expanded': String(this.open),
        'aria-controls': 'found',
        'aria-autocomplete': 'list',
        'aria-activedescendant': options.length ? `found-${this.chosen}` : null,
        autocomplete: 'off',
        spellcheck: 'false',
        maxlength: 255,
        ref: (element) => (this.input = element),
        oninput: (event) => this.type(event.target.value),
        onkeydown: (event) => this.key(event),
        onfocus: () => this.type(this.input.value),
        onblur: () => this.close(),
      }),
      h('kbd', { 'aria-hidden': 'true' }, '/'),
      h(
        'div',
        {
          id: 'found',
          class: 'found',
          role: 'listbox',
          'aria-label': t('find.label'),
          hidden: !this.open || !options.length,
        },
        options.map((option, at) => this.option(option, at)),
      ),
      h(
        'div',
        { class: 'found', role: 'status', hidden: !this.open || options.length > 0 },
        this.open && this.found && options.length === 0
          ? h('p', { class: 'muted' }, t('find.nothing', { text: this.text }))
          : h('p', { class: 'muted' }, t('find.searching')),
      ),
    );
  }

  option({ href, kids }, at) {
    // The press and not the click: the box has lost the focus by then.
    const onpointerdown = (event) => {
      event.preventDefault();
      this.go(href);
    };
    return h(
      'a',
      {
        id: `found-${at}`,
        role: 'option',
        tabindex: '-1',
        href,
        'aria-selected': String(at === this.chosen),
        onpointerdown,
      },
      kids,
    );
  }

  options() {
    const jobs = (this.found?.jobs ?? []).slice(0, JOBS).map(({ topic, id, state }) => ({
      href: `#/jobs/${enc(topic)}/${enc(id)}`,
      kids: [
        icon('jobs'),
        h('span', { class: 'found-name' }, id, h('span', { class: 'muted' }, ` ${topic}`)),
        badge(state),
      ],
    }));
    const topics = (this.found?.topics ?? []).map(({ topic }) => ({
      href: `#/topics/${enc(topic)}`,
      kids: [
        icon('topics'),
        h('span', { class: 'found-name' }, topic),
        h('span', { class: 'muted' }, t('find.topic')),
      ],
    }));
    return [...jobs, ...topics];
  }

  async type(text) {
    this.text = text.trim();
    const asked = (this.asked += 1);
    this.found = null;
    this.chosen = 0;
    this.open = this.text !== '';
    this.redraw();
    if (!this.open) return;
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    if (asked !== this.asked) return;
    const or = (nothing) => () => nothing;
    const [jobs, topics] = await Promise.all([
      get(`/v1/jobs/${enc(this.text)}`).catch(or({ jobs: [] })),
      get(`/v1/topics${query({ prefix: this.text, limit: TOPICS })}`).catch(or({ topics: [] })),
    ]);
    if (asked !== this.asked) return;
    this.found = { ...jobs, ...topics };
    this.redraw();
    if (this.hurry) this.enter();
  }

  key(event) {
    const options = this.open ? this.options() : [];
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move && options.length) this.chosen = (this.chosen + move + options.length) % options.length;
    else if (event.key === 'Enter') this.enter();
    else if (event.key === 'Escape') this.input.blur();
    else return;
    event.preventDefault();
    this.redraw();
  }

  /** Goes to what is chosen; those who are quicker than the answer are taken there when it comes. */
  enter() {
    const option = this.options()[this.chosen];
    this.hurry = !this.found && this.text !== '';
    if (option) this.go(option.href);
  }

  go(href) {
    this.hurry = false;
    this.input.value = '';
    this.input.blur();
    location.hash = href;
  }

  close() {
    this.open = false;
    this.hurry = false;
    this.redraw();
  }
}
