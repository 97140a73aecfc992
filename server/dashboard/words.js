// The language of the page: its messages, numbers and times.

import { now } from './api.js';
import en from './messages/en.js';
import zh from './messages/zh.js';

/** What can be chosen. */
export const LANGUAGES = { en: 'English', zh: '简体中文' };
const KEY = 'linger.language';

/** The language in force: what was chosen, else the first that the browser likes and we have. */
export const language = chosen(localStorage.getItem(KEY), navigator.languages ?? [navigator.language]);
const locale = language === 'zh' ? 'zh-CN' : 'en';

export function chosen(kept, liked) {
  const all = [kept, ...liked].map((tag) => tag?.slice(0, 2).toLowerCase());
  return all.find((tag) => tag in LANGUAGES) ?? 'en';
}

/** Takes another language; the page is read anew for it. */
export function choose(tag) {
  localStorage.setItem(KEY, tag);
  location.reload();
}

const messages = { en, zh }[language];
const plural = new Intl.PluralRules(locale);

/** A message; `{name}` in it stands for what is given, and `count` chooses its form. */
export function t(key, given = {}) {
  return parts(key, given)
    .map((part) => (typeof part === 'number' ? num(part) : part))
    .join('');
}

/** The same as a list, so that elements can stand in it. */
export function parts(key, given = {}) {
  const message = messages[key] ?? key;
  const form = typeof message === 'string' ? message : (message[plural.select(given.count)] ?? message.other);
  return form.split(/\{(\w+)\}/).map((part, at) => (at % 2 ? (given[part] ?? '') : part));
}

/** Whether there is such a message. */
export const has = (key) => key in messages;

const whole = new Intl.NumberFormat(locale, { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat(locale, { notation: 'compact', maximumFractionDigits: 1 });
const small = new Intl.NumberFormat(locale, { maximumSignificantDigits: 2 });
const share = new Intl.NumberFormat(locale, { style: 'percent', maximumFractionDigits: 1 });

/** A number in full, and one that may be cut: 1.2M. */
export const num = (value) => (value == null ? '–' : whole.format(value));
export const brief = (value) =>
  value == null ? '–' : value < 10_000 ? whole.format(value) : short.format(value);
export const percent = (value) => share.format(value);
/** So many a second. */
export function rate(value) {
  if (value == null || Number.isNaN(value)) return '–';
  const shown = value >= 10_000 ? short : value >= 10 ? whole : small;
  return shown.format(value < 0.005 ? 0 : value);
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
export function bytes(value) {
  if (value == null) return '–';
  let at = 0;
  while (value >= 1024 && at < UNITS.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${new Intl.NumberFormat(locale, { maximumFractionDigits: value < 10 && at ? 1 : 0 }).format(value)} ${UNITS[at]}`;
}

/** Milliseconds as people measure them: 0.3 ms, 45 ms, 1.2 s, 3 min. */
export function span(ms) {
  if (ms == null) return '–';
  if (ms === 0) return unit('millisecond', 0);
  if (ms < 1_000) return unit('millisecond', ms, ms < 10 ? 2 : 3);
  if (ms < 60_000) return unit('second', ms / 1_000, 2);
  if (ms < 3_600_000) return unit('minute', ms / 60_000, 2);
  if (ms < 86_400_000) return unit('hour', ms / 3_600_000, 2);
  return unit('day', ms / 86_400_000, 2);
}
function unit(name, value, digits = 2) {
  const style = {
    style: 'unit',
    unit: name,
    unitDisplay: 'short',
    maximumSignificantDigits: Math.max(digits, String(Math.round(value)).length),
  };
  return new Intl.NumberFormat(locale, style).format(value);
}

const relative = new Intl.RelativeTimeFormat(locale, { numeric: 'always', style: 'short' });
const STEPS = [
  ['second', 1_000],
  ['minute', 60_000],
  ['hour', 3_600_000],
  ['day', 86_400_000],
];
/** How far from now: in 5 min, 3 days ago. */
export function fromNow(time) {
  const away = Date.parse(time) - now();
  if (Math.abs(away) < 1_000) return t('time.now');
  const [name, ms] = STEPS.findLast(([, ms]) => Math.abs(away) >= ms);
  return relative.format(Math.trunc(away / ms), name);
}

const FORMATS = {
  full: {
    year: 'numeric',
    month: 'short',
    day: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
  },
  exact: {
    year: 'numeric',
    month: 'short',
    day: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    fractionalSecondDigits: 3,
    timeZoneName: 'short',
  },
  words: {
    weekday: 'long',
    month: 'long',
    day: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
  },
  words_year: {
    weekday: 'long',
    year: 'numeric',
    month: 'long',
    day: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
  },
  second: { hour: '2-digit', minute: '2-digit', second: '2-digit' },
  minute: { hour: '2-digit', minute: '2-digit' },
  day: { month: 'short', day: 'numeric' },
  near: { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit' },
};
const formats = {};
/** A moment, in one of the forms above. */
export function time(moment, form = 'full') {
  if (moment == null) return '–';
  formats[form] ??= new Intl.DateTimeFormat(locale, { ...FORMATS[form], hourCycle: 'h23' });
  return formats[form].format(new Date(moment));
}

const isThisYear = (moment) => new Date(moment).getFullYear() === new Date(now()).getFullYear();

/** A moment in words: Tuesday, November 17 at 09:00:00. */
export const inWords = (moment) => time(moment, isThisYear(moment) ? 'words' : 'words_year');

/** A time of the API, short: the time of day if it is near, with the date if not. */
export function when(moment) {
  if (moment == null) return '–';
  const near = Math.abs(Date.parse(moment) - now()) < 20 * 3_600_000;
  return time(moment, near ? 'second' : isThisYear(moment) ? 'near' : 'full');
}
