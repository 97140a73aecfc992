// What the key may do, so that what the server would refuse is not offered.

import { getIfThere, keyInUse } from './api.js';

/** The last answer of `GET /v1/whoami`; undefined before it, null if this server has no such call. */
export let who;
let askedFor;

/** Asks once for each key. */
export async function askWho() {
  const key = keyInUse();
  if (who !== undefined && askedFor === key) return;
  who = await getIfThere('/v1/whoami');
  askedFor = key;
}

/** Whether this may be done, to a topic if one is named. Until it is known nothing may. */
export function may(scope, topic) {
  if (!who) return who === null;
  if (!who.scopes.includes(scope) && !who.scopes.includes('admin')) return false;
  return topic === undefined || who.topics.some((pattern) => fits(pattern, topic));
}

/** Whether what is about the whole server may be changed, as keys. */
export const administers = () => may('admin') && seesAll();

/** Whether the key is for all topics. */
export const seesAll = () => who === null || Boolean(who?.topics.includes('*'));

function fits(pattern, topic) {
  return pattern.endsWith('*') ? topic.startsWith(pattern.slice(0, -1)) : topic === pattern;
}
