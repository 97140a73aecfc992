// The frame around the views: where one is, how to get elsewhere, and whether the server is there.

import { link, onLink, poll, probe, signIn, signOut } from './api.js';
import { ask, inDialog, sayIn, show, tasksIn } from './dialogs.js';
import { Finder } from './find.js';
import { askStats, stats } from './live.js';
import { button, icon } from './parts.js';
import { h, render } from './ui.js';
import { administers, askWho, may, who } from './who.js';
import { LANGUAGES, brief, choose, language, num, percent, t } from './words.js';

const VIEWS = {
  overview: () => import('./views/overview.js'),
  topics: () => import('./views/topics.js'),
  topic: () => import('./views/topic.js'),
  jobs: () => import('./views/jobs.js'),
  job: () => import('./views/job.js'),
  dead: () => import('./views/dead.js'),
  delivery: () => import('./views/delivery.js'),
  events: () => import('./views/events.js'),
  nodes: () => import('./views/nodes.js'),
  keys: () => import('./views/keys.js'),
  add: () => import('./views/add.js'),
};
/** What the menu has, each with the key that follows `g`. */
const MENU = [
  ['overview', 'o'],
  ['topics', 't'],
  ['jobs', 'j'],
  ['dead', 'd'],
  ['delivery', 'p'],
  ['events', 'e'],
  ['nodes', 'n'],
  ['keys', 'k'],
  ['add', 'a'],
];
/** What is not for everybody. */
const OFFERED = { keys: administers, add: () => may('add') };
const THEMES = ['auto', 'light', 'dark'];

const app = document.getElementById('app');
const finder = new Finder(redraw);
let at = { name: 'overview', params: [] };
let view = null;
let leave = new AbortController();
let menuOpen = false;
let theme = document.documentElement.dataset.theme ?? 'auto';

/** Where the address leads: a view, and what it is about. */
function route() {
  const [path, search = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const [head = '', ...params] = path.split('/').map(decode);
  const name =
    head === ''
      ? 'overview'
      : head === 'topics' && params.length
        ? 'topic'
        : head === 'jobs' && params.length > 1
          ? 'job'
          : head;
  return {
    name: name in VIEWS ? name : 'overview',
    params,
    query: Object.fromEntries(new URLSearchParams(search)),
  };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

async function enter() {
  leave.abort();
  leave = new AbortController();
  const { signal } = leave;
  at = route();
  menuOpen = false;
  const { open } = await VIEWS[at.name]();
  if (signal.aborted) return;
  view = open({ ...at, signal, redraw, poll: (every, look) => poll(every, signal, look) });
  document.title = `${view.title} · Linger`;
  scrollTo(0, 0);
  announced = !entered;
  entered = true;
  redraw();
}
let entered = false;
let announced = true;

/** So that those who hear the page hear that it has changed; not from under those who type already. */
function announce() {
  announced = true;
  if (document.activeElement?.tagName !== 'INPUT')
    document.querySelector('h1')?.focus({ preventScroll: true });
}

let asked = false;
/** Draws before the next frame, or soon if there is none because nobody looks. */
function redraw() {
  if (asked) return;
  asked = true;
  const soon = document.hidden ? setTimeout : requestAnimationFrame;
  soon(() => {
    asked = false;
    render(app, frame());
    if (!announced) announce();
  });
}

function frame() {
  return [
    h('a', { class: 'skip', href: '#main', onclick: skip }, t('skip')),
    h('header', { class: 'top' }, brand(), menuButton(), finder.draw(), status()),
    h(
      'nav',
      { id: 'menu', class: menuOpen ? 'menu open' : 'menu', 'aria-label': t('menu') },
      menu(),
      choices(),
    ),
    h(
      'main',
      { id: 'main', tabindex: '-1' },
      banner(),
      view?.draw() ?? h('p', { class: 'muted loading' }, t('loading')),
    ),
    h('div', { class: 'toasts', role: 'status', 'aria-live': 'polite', ref: sayIn }),
    h('div', { class: 'tasks', role: 'region', 'aria-label': t('tasks'), ref: tasksIn }),
  ];
}

function skip(event) {
  event.preventDefault();
  document.getElementById('main').focus();
}

function brand() {
  return h(
    'a',
    { class: 'brand', href: '#/', 'aria-label': 'Linger' },
    h('img', { src: 'dashboard/icon.svg', alt: '', width: 24, height: 24 }),
    h('span', {}, 'Linger'),
  );
}

function menuButton() {
  const toggle = () => {
    menuOpen = !menuOpen;
    redraw();
  };
  return h(
    'button',
    {
      type: 'button',
      class: 'button icon-only quiet menu-button',
      'aria-label': t('menu'),
      'aria-expanded': String(menuOpen),
      'aria-controls': 'menu',
      onclick: toggle,
    },
    icon(menuOpen ? 'close' : 'menu'),
  );
}

const offered = () => MENU.filter(([name]) => OFFERED[name]?.() ?? true);

function menu() {
  const current = { topic: 'topics', job: 'jobs' }[at.name] ?? at.name;
  const entry = ([name]) => {
    const dead = name === 'dead' && stats?.counts.dead;
    return h(
      'li',
      {},
      h(
        'a',
        { href: name === 'overview' ? '#/' : `#/${name}`, 'aria-current': name === current ? 'page' : null },
        icon(name),
        h('span', {}, t(`menu.${name}`)),
        dead > 0 && h('span', { class: 'menu-count num', title: num(dead) }, brief(dead)),
      ),
    );
  };
  return h('ul', {}, offered().map(entry));
}

function choices() {
  const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  const setTheme = () => {
    theme = next;
    if (theme === 'auto') {
      localStorage.removeItem('linger.theme');
      delete document.documentElement.dataset.theme;
    } else {
      localStorage.setItem('linger.theme', theme);
      document.documentElement.dataset.theme = theme;
    }
    redraw();
  };
  const other = Object.keys(LANGUAGES).find((tag) => tag !== language);
  return h(
    'div',
    { class: 'choices' },
    h(
      'button',
      {
        type: 'button',
        class: 'button quiet theme',
        onclick: setTheme,
        title: t('theme.next', { next: t(`theme.${next}`) }),
      },
      icon({ auto: 'auto', light: 'sun', dark: 'moon' }[theme]),
      h('span', {}, t(`theme.${theme}`)),
    ),
    h(
      'button',
      { type: 'button', class: 'button quiet language', lang: other, onclick: () => choose(other) },
      icon('globe'),
      LANGUAGES[other],
    ),
    button(t('help.open'), help, { kind: 'quiet help', iconName: 'keyboard' }),
    who?.keys && [
      h('p', { class: 'who breakable' }, t('key.whose', { name: who.name })),
      button(t('key.sign_out'), () => signOut(), { kind: 'quiet', iconName: 'out' }),
    ],
    h(
      'p',
      { class: 'version' },
      h('a', { href: 'docs' }, t('menu.api')),
      stats?.version && h('span', {}, `Linger ${stats.version}`),
    ),
  );
}

function status() {
  const word = link.away ? 'away' : 'live';
  return h(
    'span',
    { class: `status ${word}`, title: link.why },
    h('i', {}),
    h('span', {}, t(`link.${word}`)),
  );
}

/** Says that what is shown is not what is. */
function banner() {
  const draw = (words, then, action) =>
    h('div', { class: 'banner' }, icon('warn'), h('p', {}, h('strong', {}, words), ' ', then), action);
  const seconds = Math.max(0, Math.ceil((link.next - Date.now()) / 1_000));
  const words = link.loaded === null ? t('link.gone') : t('link.loading', { share: percent(link.loaded) });
  return h(
    'div',
    { role: 'status', 'aria-live': 'polite' },
    link.away &&
      draw(
        words,
        h('span', { 'aria-hidden': 'true' }, t('link.next', { count: seconds })),
        button(t('link.retry'), probe, { kind: 'small' }),
      ),
    link.asksKey && draw(t('key.text'), null, button(t('key.action'), askKey, { kind: 'small' })),
  );
}

let asksKey = false;
async function askKey() {
  if (asksKey || !link.asksKey) return;
  asksKey = true;
  await ask({
    title: t('key.title'),
    text: h('p', {}, t('key.text')),
    fields: inDialog('key', t('key.label'), { type: 'password', required: true }),
    action: t('key.action'),
    act: ({ key }) => signIn(key),
  });
  asksKey = false;
}

function help() {
  const rows = [
    ['/', t('help.find')],
    ...offered().map(([name, key]) => [`g ${key}`, t(`menu.${name}`)]),
    ['?', t('help.help')],
    ['Esc', t('help.esc')],
  ];
  const keys = (text) => text.split(' ').map((key) => h('kbd', {}, key));
  show(
    t('help.title'),
    h(
      'dl',
      { class: 'keys' },
      rows.map(([key, what]) => h('div', {}, h('dt', {}, keys(key)), h('dd', {}, what))),
    ),
  );
}

let afterG = false;
function onKey(event) {
  const isTyping = event.target.closest('input, textarea, select, [contenteditable]');
  if (event.key === 'Escape' && menuOpen) {
    menuOpen = false;
    redraw();
  }
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]'))
    return;
  const to = afterG && offered().find(([, key]) => key === event.key);
  afterG = event.key === 'g';
  if (to) location.hash = to[0] === 'overview' ? '#/' : `#/${to[0]}`;
  else if (event.key === '/') finder.focus();
  else if (event.key === '?') help();
  else return;
  event.preventDefault();
}

document.documentElement.lang = language === 'zh' ? 'zh-CN' : 'en';
addEventListener('hashchange', enter);
addEventListener('keydown', onKey);
onLink(() => {
  redraw();
  askKey();
});
// What has been said of times gets old by itself.
setInterval(() => !document.hidden && redraw(), 1_000);
poll(2_000, new AbortController().signal, async () => {
  await askWho();
  await askStats();
  redraw();
});
enter();
