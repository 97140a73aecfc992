// What a job carries: JSON as a tree that folds, text as text, bytes in hex.

import { Num, Raw, compact, pretty, raw } from './json.js';
import { narrow } from './table.js';
import { h } from './ui.js';
import { bytes as size, num, t } from './words.js';

/** Open from the start, as long as the tree is small. */
const OPEN_DEPTH = 2;
/** Of more items only the first are drawn, and the rest on demand. */
const ITEMS_MAX = 200;
/** Of more bytes only the first are drawn. */
const HEX_MAX = 16 * 256;
/** So many a line, and so many where there is little room. */
const ACROSS = 16;
const ACROSS_NARROW = 8;
const TEXT_MAX = 200_000;

/** The body of a job as people read it. */
export function bodyView({ body, body_base64: coded }) {
  if (coded !== undefined) return hex(coded);
  if (!(body instanceof Raw)) return h('p', { class: 'muted' }, t('body.none'));
  const { value } = body;
  if (typeof value === 'string')
    return value === ''
      ? h('p', { class: 'muted' }, t('body.none'))
      : h('pre', { class: 'body-text', tabindex: '0' }, value.slice(0, TEXT_MAX));
  return h('div', { class: 'tree' }, node(null, value, 0, '$'));
}

function node(name, value, depth, path) {
  const label =
    name === null
      ? null
      : [h('span', { class: 'j-name' }, typeof name === 'number' ? name : JSON.stringify(name)), ': '];
  const list = Array.isArray(value);
  if (!list && !(value instanceof Map)) return h('div', { key: path, class: 'j-leaf' }, label, leaf(value));
  const entries = list ? value.map((item, at) => [at, item]) : [...value];
  if (!entries.length) return h('div', { key: path, class: 'j-leaf' }, label, list ? '[]' : '{}');
  const summary = h(
    'summary',
    {},
    label,
    h(
      'span',
      { class: 'muted' },
      list ? t('body.items', { count: entries.length }) : t('body.fields', { count: entries.length }),
    ),
  );
  return h(
    'details',
    // Opened once: from then on people have the say.
    { key: path, ref: (element) => (element.open = depth < OPEN_DEPTH && entries.length <= ITEMS_MAX) },
    summary,
    h(
      'div',
      { class: 'j-kids' },
      entries.slice(0, ITEMS_MAX).map(([key, item]) => node(key, item, depth + 1, `${path}/${key}`)),
      entries.length > ITEMS_MAX &&
        h('p', { class: 'muted' }, t('more', { count: entries.length - ITEMS_MAX })),
    ),
  );
}

function leaf(value) {
  if (value instanceof Num) return h('span', { class: 'j-number' }, value.text);
  if (typeof value === 'string') return h('span', { class: 'j-string' }, JSON.stringify(value));
  return h('span', { class: 'j-word' }, String(value));
}

/** Bytes in lines, with the letters among them. */
function hex(coded) {
  const text = atob(coded);
  const lines = [];
  const across = narrow.matches ? ACROSS_NARROW : ACROSS;
  for (let at = 0; at < Math.min(text.length, HEX_MAX); at += across) {
    const some = [...text.slice(at, at + across)];
    const codes = some.map((letter) => letter.charCodeAt(0).toString(16).padStart(2, '0'));
    const half = (from) =>
      codes
        .slice(from, from + 8)
        .join(' ')
        .padEnd(23);
    const letters = some.map((letter) => (letter >= ' ' && letter <= '~' ? letter : '·')).join('');
    const numbers = across === ACROSS ? `${half(0)}  ${half(8)}` : half(0);
    lines.push(`${at.toString(16).padStart(8, '0')}  ${numbers}  ${letters}`);
  }
  return h(
    'div',
    {},
    h('p', { class: 'muted' }, t('body.bytes', { count: text.length, size: size(text.length) })),
    h('pre', { class: 'hex', tabindex: '0' }, lines.join('\n')),
    text.length > HEX_MAX && h('p', { class: 'muted' }, t('body.first', { count: num(HEX_MAX) })),
  );
}

/** A body as it is edited: its kind, and text. */
export function editable({ body, body_base64: coded }) {
  if (coded !== undefined) return { kind: 'base64', text: coded };
  if (!(body instanceof Raw)) return { kind: 'text', text: '' };
  return typeof body.value === 'string'
    ? { kind: 'text', text: body.value }
    : { kind: 'json', text: pretty(body.value) };
}

/** The same as a field of a request, as JSON text. */
export function readBody(kind, text) {
  if (kind === 'base64') return `"body_base64":${JSON.stringify(text.replace(/\s+/g, ''))}`;
  if (kind === 'text') return `"body":${JSON.stringify(text)}`;
  try {
    return `"body":${compact(raw(text).value)}`;
  } catch (error) {
    throw new Error(t('body.not_json', { why: error.message }));
  }
}
