// Small parts that every view is made of.

import { h } from './ui.js';
import { fromNow, num, t, time, when } from './words.js';

const ICONS = {
  overview: 'M3 13h4l3-8 4 14 3-6h4',
  topics: 'M4 6h16M4 12h16M4 18h10',
  jobs: 'M4 4h16v16H4zM8 9h8M8 13h8M8 17h4',
  dead: 'M5 8h14v12H5zM3 4h18v4H3zM10 12h4',
  delivery: 'M3 12h13M11 6l6 6-6 6M21 5v14',
  events: 'M12 7v5l3 2M4 12a8 8 0 1 0 2.5-5.8M4 4v4h4',
  nodes: 'M4 4h16v6H4zM4 14h16v6H4zM8 7h.01M8 17h.01',
  keys: 'M8 10a5 5 0 1 0 0 10 5 5 0 0 0 0-10zM11.5 11.5L20 3M16 7l3 3',
  add: 'M12 5v14M5 12h14',
  find: 'M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM20 20l-4-4',
  globe: 'M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM3 12h18M12 3c3 3 3 15 0 18M12 3c-3 3-3 15 0 18',
  keyboard: 'M3 6h18v12H3zM7 10h.01M12 10h.01M17 10h.01M8 14h8',
  out: 'M14 4H5v16h9M10 12h11M17 8l4 4-4 4',
  menu: 'M4 7h16M4 12h16M4 17h16',
  close: 'M6 6l12 12M18 6L6 18',
  sun: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6L19 19M5 19l1.4-1.4M17.6 6.4L19 5',
  moon: 'M20 14.5A8 8 0 0 1 9.5 4a8 8 0 1 0 10.5 10.5z',
  auto: 'M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  warn: 'M12 4l9 16H3zM12 10v4M12 17h.01',
  repeat: 'M17 3l3 3-3 3M4 11V9a3 3 0 0 1 3-3h13M7 21l-3-3 3-3M20 13v2a3 3 0 0 1-3 3H4',
  check: 'M5 12.5l4.5 4.5L19 7.5',
  play: 'M8 5l11 7-11 7z',
};

/** A drawing beside words; it says nothing by itself. */
export function icon(name) {
  return h(
    'svg',
    { class: 'icon', viewBox: '0 0 24 24', 'aria-hidden': 'true' },
    h('path', { d: ICONS[name] }),
  );
}

/** The state of a job. */
export function badge(state) {
  return h('span', { class: `badge s-${state}` }, t(`state.${state}`));
}

/** A word of warning, praise or none. */
export function tag(text, kind = '') {
  return h('span', { class: `tag ${kind}` }, text);
}

/** A moment, with how far it is, and in full on demand. */
export function moment(at, { far = true } = {}) {
  if (at == null) return '–';
  return h('time', { datetime: at, title: time(at, 'exact') }, far ? fromNow(at) : when(at));
}

/** Both at once. */
export function moments(at) {
  if (at == null) return '–';
  return h(
    'time',
    { datetime: at, title: time(at, 'exact') },
    when(at),
    h('span', { class: 'muted' }, ` · ${fromNow(at)}`),
  );
}

export function button(text, onclick, { kind = '', iconName, ...props } = {}) {
  return h(
    'button',
    { type: 'button', class: `button ${kind}`, onclick, ...props },
    iconName && icon(iconName),
    h('span', {}, text),
  );
}

/** Takes all filters away. */
export function clearButton(onclick) {
  const label = t('jobs.clear');
  return h(
    'button',
    { type: 'button', class: 'button icon-only quiet', onclick, 'aria-label': label, title: label },
    icon('close'),
  );
}

export function card(title, { extra, cls = '' } = {}, ...kids) {
  return h(
    'section',
    { class: `card ${cls}`, 'aria-label': title },
    title &&
      h(
        'header',
        { class: 'card-head' },
        h('h2', {}, title),
        extra && h('div', { class: 'card-extra' }, extra),
      ),
    kids,
  );
}

/** Names and what they are. */
export function facts(pairs) {
  const given = pairs.filter((pair) => pair && pair[1] != null && pair[1] !== false);
  return h(
    'dl',
    { class: 'facts' },
    given.map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))),
  );
}

/** A number that stands for itself. */
export function tile(name, value, { state, href, note } = {}) {
  const inside = [
    h('span', { class: 'tile-name' }, state && h('i', { class: `dot s-${state}` }), name),
    h('span', { class: 'tile-value' }, typeof value === 'string' ? value : num(value)),
    note && h('span', { class: 'tile-note' }, note),
  ];
  return href ? h('a', { class: 'tile', href }, inside) : h('div', { class: 'tile' }, inside);
}

/** What to do where there is nothing yet. */
export function empty(title, ...kids) {
  return h('div', { class: 'empty' }, h('p', { class: 'empty-title' }, title), kids);
}

/** Text to copy, with a button for it. */
export function copyable(text, { label, cls = '' } = {}) {
  return h('div', { class: `copyable ${cls}` }, h('pre', { tabindex: '0' }, text), copyButton(text, label));
}

/** Copies a text, and shows that it did. */
export function copyButton(text, label = t('copy')) {
  const copy = async ({ currentTarget }) => {
    await copyText(text);
    currentTarget.dataset.done = '';
    currentTarget.onblur = () => delete currentTarget.dataset.done;
  };
  return h(
    'button',
    { type: 'button', class: 'button small copy', onclick: copy, 'aria-label': label, title: label },
    icon('copy'),
  );
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Pages that are not on loopback nor on TLS have no clipboard.
    const area = document.createElement('textarea');
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
}

/** One of some, all in sight. */
export function segments(label, options, value, onchange) {
  return h(
    'div',
    { class: 'segments', role: 'group', 'aria-label': label },
    options.map(([name, text]) =>
      h(
        'button',
        { type: 'button', 'aria-pressed': String(name === value), onclick: () => onchange(name) },
        text,
      ),
    ),
  );
}

/** An input with its name above it and a word of help below. */
export function field(id, label, { hint, type = 'text', options, rows, cls = '', ...props } = {}) {
  const about = hint && { 'aria-describedby': `${id}-hint` };
  const common = { id, name: id, ...about, ...props };
  const control = options
    ? h(
        'select',
        common,
        options.map(([value, text]) => h('option', { value }, text)),
      )
    : rows
      ? h('textarea', { rows, spellcheck: 'false', ...common })
      : h('input', { type, autocomplete: 'off', spellcheck: 'false', ...common });
  return h(
    'div',
    { class: `field ${cls}` },
    h('label', { for: id }, label),
    control,
    hint && h('p', { class: 'hint', id: `${id}-hint` }, hint),
  );
}

/** A line of recent values. */
export function spark(values, { cls = '', label } = {}) {
  const most = Math.max(...values, 0.001);
  const x = (at) => (values.length < 2 ? 100 : (at / (values.length - 1)) * 100);
  const points = values.map((value, at) => `${x(at).toFixed(1)},${(30 - (value / most) * 27).toFixed(1)}`);
  const line = points.length ? `M${points.join('L')}` : '';
  return h(
    'svg',
    {
      class: `spark ${cls}`,
      viewBox: '0 0 100 32',
      preserveAspectRatio: 'none',
      role: label ? 'img' : null,
      'aria-label': label,
      'aria-hidden': label ? null : 'true',
    },
    line && h('path', { class: 'spark-area', d: `${line}L100,32L${x(0).toFixed(1)},32Z` }),
    line && h('path', { class: 'spark-line', d: line }),
  );
}
