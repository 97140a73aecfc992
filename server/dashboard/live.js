// What several views look at: the counts of the server over the last minutes, and all its topics.

import { get, getIfThere, query, setClock } from './api.js';

/** Two minutes, one each two seconds. */
const SAMPLES_MAX = 61;
/** Rates of topics are over about so long. */
const RATE_MS = 10_000;
/** So many topics are looked at, at most. */
const TOPICS_MAX = 100_000;
const PAGE = 1_000;

/** Answers of `GET /v1/stats`, the last one last. */
const samples = [];

/** The last answer; undefined before the first, null if this server has no such call. */
export let stats;

export async function askStats() {
  const answer = await getIfThere('/v1/stats');
  if (answer) {
    setClock(answer.now);
    // One that was started anew counts from 0.
    if (stats && stats.started !== answer.started) samples.length = 0;
    samples.push({ ...answer, at: Date.parse(answer.now) });
    if (samples.length > SAMPLES_MAX) samples.shift();
  }
  stats = answer;
}

/** So many a second, over the last ten or so; nothing after one sample. */
export function rateOf(count) {
  const last = samples.at(-1);
  const first = samples.find((sample) => last.at - sample.at <= RATE_MS);
  return perSecond(first, last, count);
}

/** The rate between each two samples. */
export function rates(count) {
  return samples.slice(1).map((sample, at) => perSecond(samples[at], sample, count) ?? 0);
}

function perSecond(first, last, count) {
  if (!first || last.at <= first.at) return undefined;
  return Math.max(0, ((count(last) - count(first)) * 1_000) / (last.at - first.at));
}

/** p50 and p99 of a histogram's last minutes, or of all if nothing was counted in them. */
export function lateness(name) {
  const last = samples.at(-1)?.lateness;
  const first = samples[0]?.lateness;
  if (!last) return undefined;
  const recent = last[name].map((count, at) => count - first[name][at]);
  const isRecent = recent.some((count) => count > 0);
  const counts = isRecent ? recent : last[name];
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return undefined;
  return {
    isRecent,
    total,
    p50: quantile(last.bounds_ms, counts, total, 0.5),
    p99: quantile(last.bounds_ms, counts, total, 0.99),
  };
}

/** The upper bound of the class that it falls in; `over` if that is the open one. */
export function quantile(bounds, counts, total, share) {
  let seen = 0;
  for (let at = 0; at < counts.length; at += 1) {
    seen += counts[at];
    if (seen >= total * share)
      return at < bounds.length ? { ms: bounds[at] } : { ms: bounds.at(-1), over: true };
  }
  return { ms: bounds.at(-1), over: true };
}

/** Jobs of a topic that may still be handed out, or were given up. */
export const held = ({ delayed, ready, reserved, retry, held, dead }) =>
  delayed + ready + reserved + retry + held + dead;
/** Those that a time stands for. */
export const waiting = ({ delayed, retry }) => delayed + retry;

/** All topics, as of the last look; undefined before the first. */
export let topics;
let looked;
let snapshots = [];

/**
 * Looks at all topics, page by page. Answers how long to leave it at that: one that has many is not
 * asked for all of them every other second.
 */
export async function askTopics(signal) {
  const begun = performance.now();
  const all = [];
  let cursor;
  do {
    const page = await get(`/v1/topics${query({ limit: PAGE, cursor })}`);
    signal.throwIfAborted();
    for (const topic of page.topics) all.push(topic);
    cursor = page.cursor;
  } while (cursor && all.length < TOPICS_MAX);
  remember(all);
  const took = performance.now() - begun;
  return all.length > PAGE ? Math.max(10_000, took * 10) : 2_000;
}

function remember(all) {
  const at = performance.now();
  const newest = snapshots.at(-1);
  if (!newest || at - newest.at >= RATE_MS) {
    const seen = new Map(all.map((topic) => [topic.topic, [topic.added, held(topic.counts)]]));
    snapshots = [...snapshots.slice(-1), { at, seen }];
  }
  const base = snapshots[0];
  for (const topic of all) Object.assign(topic, ratesSince(base, at, topic));
  topics = all;
  looked = at;
}

/** What came in and what left a second, since a look at it before. */
export function ratesSince(base, at, topic) {
  const before = base.seen.get(topic.topic);
  const seconds = (at - base.at) / 1_000;
  if (!before || seconds < 1) return { inRate: undefined, outRate: undefined };
  const came = Math.max(0, topic.added - before[0]);
  const left = came - (held(topic.counts) - before[1]);
  return { inRate: came / seconds, outRate: Math.max(0, left) / seconds };
}

/** As `askTopics`, but what is fresh enough is taken as it is. */
export async function askTopicsWithin(ms, signal) {
  if (topics && performance.now() - looked < ms) return;
  await askTopics(signal);
}
