// Questions before anything is done, and a word after it.

import { h, make, render } from './ui.js';
import { button, field, icon } from './parts.js';
import { num, t } from './words.js';

/** How long a word stays; one of trouble stays longer. */
const SAID_MS = 6_000;
const TROUBLE_MS = 20_000;

/**
 * Asks, and does it: `act` is given what was filled in. Resolves to what `act` answered, or to
 * undefined if people thought better of it. What it refuses is shown, and the question stays.
 */
export function ask({ title, text, fields, action, kind = 'primary', act, wide }) {
  return new Promise((resolve) => {
    let outcome;
    const trouble = make(h('p', { class: 'trouble', role: 'alert', hidden: true }));
    const submit = async (event) => {
      event.preventDefault();
      const form = event.currentTarget;
      const go = form.querySelector('.go');
      go.disabled = true;
      trouble.hidden = true;
      try {
        outcome = (await act?.(Object.fromEntries(new FormData(form)), form)) ?? true;
        dialog.close();
      } catch (error) {
        trouble.textContent = error.message;
        trouble.hidden = false;
      }
      go.disabled = false;
    };
    const dialog = make(
      h(
        'dialog',
        { class: wide ? 'wide' : '', 'aria-label': title },
        h(
          'form',
          { onsubmit: submit },
          h('h2', {}, title),
          text && h('div', { class: 'dialog-text' }, text),
          fields && h('div', { class: 'fields' }, fields),
          h('div', { class: 'trouble-place' }),
          h(
            'div',
            { class: 'dialog-actions' },
            button(t('cancel'), () => dialog.close(), { kind: 'quiet' }),
            h('button', { type: 'submit', class: `button go ${kind}` }, h('span', {}, action)),
          ),
        ),
      ),
    );
    dialog.querySelector('.trouble-place').replaceWith(trouble);
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(outcome);
    });
    document.body.append(dialog);
    dialog.showModal();
    (dialog.querySelector('[autofocus], input, select, textarea') ?? dialog.querySelector('.go')).focus();
  });
}

/** Shows something until it is closed. */
export function show(title, ...kids) {
  const dialog = make(
    h(
      'dialog',
      { 'aria-label': title },
      h(
        'div',
        { class: 'dialog-body' },
        h('h2', {}, title),
        kids,
        h(
          'div',
          { class: 'dialog-actions' },
          button(t('close'), () => dialog.close()),
        ),
      ),
    ),
  );
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

const said = [];
let place;

/** Where words are said. */
export function sayIn(element) {
  place = element;
}

/** Says what was done, with a way to it. */
export function say(text, { kind = '', href, hrefText } = {}) {
  const word = { text, kind, href, hrefText, key: performance.now() };
  said.push(word);
  if (said.length > 4) said.shift();
  setTimeout(() => forget(word), kind === 'bad' ? TROUBLE_MS : SAID_MS);
  drawSaid();
}

function forget(word) {
  const at = said.indexOf(word);
  if (at >= 0) said.splice(at, 1);
  drawSaid();
}

function drawSaid() {
  render(
    place,
    said.map((word) =>
      h(
        'div',
        { key: word.key, class: `toast ${word.kind}` },
        h('span', {}, word.text),
        word.href && h('a', { href: word.href, onclick: () => forget(word) }, word.hrefText),
        h(
          'button',
          {
            type: 'button',
            class: 'button icon-only quiet',
            'aria-label': t('close'),
            onclick: () => forget(word),
          },
          icon('close'),
        ),
      ),
    ),
  );
}

/** Does something, and says what came of it or what was in the way. */
export async function attempt(act, done) {
  try {
    const result = await act();
    if (done) say(done(result));
    return result;
  } catch (error) {
    say(error.message, { kind: 'bad' });
    return undefined;
  }
}

// Work that goes on while people look at other views.
const tasks = new Set();
let tray;

export function tasksIn(element) {
  tray = element;
  addEventListener('beforeunload', (event) => {
    if (tasks.size) event.preventDefault();
  });
}

/**
 * Works step by step until a step answers that nothing is left, or it is stopped. Each counts in its
 * task what is done (`count`) and what was refused (`bad`); `every` is the time from one to the next.
 */
export async function work({ title, total, every = 0, step, done }) {
  const task = { title, total, count: 0, bad: 0, stopped: false, key: performance.now() };
  tasks.add(task);
  drawTasks();
  try {
    while (!task.stopped) {
      const begun = performance.now();
      const goesOn = await step(task);
      drawTasks();
      if (!goesOn) break;
      await pause(every - (performance.now() - begun));
    }
    say(done(task), { kind: task.bad ? 'bad' : '' });
  } catch (error) {
    say(`${title}: ${error.message}`, { kind: 'bad' });
  }
  tasks.delete(task);
  drawTasks();
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)));

function drawTasks() {
  const draw = (task) => {
    const stop = () => {
      task.stopped = true;
      drawTasks();
    };
    return h(
      'div',
      { key: task.key, class: 'task' },
      h(
        'div',
        { class: 'task-words' },
        h('strong', {}, task.title),
        h('span', { class: 'muted' }, t('task.progress', { done: num(task.count), total: num(task.total) })),
      ),
      h('progress', { max: task.total, value: task.count + task.bad, 'aria-label': task.title }),
      h('span', { class: 'muted keep-open' }, t('task.keep_open')),
      button(t('task.stop'), stop, { kind: 'small', disabled: task.stopped }),
    );
  };
  render(tray, [...tasks].map(draw));
}

/** Where a question needs a name of its own for a field, so that no two on the page are alike. */
export const inDialog = (name, label, props) => field(`d-${name}`, label, { ...props, name });
