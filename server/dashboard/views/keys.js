// API keys: which there are, made and revoked; and who has changed what.

import { enc, get, send, signIn, signOut } from '../api.js';
import { ask, inDialog, say, show } from '../dialogs.js';
import { button, card, copyable, empty, moment, moments, tag } from '../parts.js';
import { Table } from '../table.js';
import { h } from '../ui.js';
import { administers, who } from '../who.js';
import { parts, t } from '../words.js';

const SCOPES = ['add', 'consume', 'read', 'metrics', 'admin'];
/** As many as one call brings. */
const KEYS = 1_000;
/** So many changes at first, and so many the server keeps. */
const CHANGES = 20;
const CHANGES_MAX = 1_000;
/** Until it is known whose key this is. */
const SOON_MS = 100;

export function open({ signal, redraw, poll }) {
  const view = new Keys({ signal, redraw, poll });
  return { title: t('menu.keys'), draw: () => view.draw() };
}

class Keys {
  constructor({ signal, redraw, poll }) {
    Object.assign(this, { keys: null, changes: null, wanted: CHANGES });
    const table = (label, columns, keyOf) => new Table({ label: t(label), columns, keyOf, redraw, signal });
    this.keyTable = table('menu.keys', this.keyColumns(), ({ id }) => id);
    this.changeTable = table('audit.title', changeColumns(), ({ place }) => place);
    this.redraw = redraw;
    this.look = poll(4_000, () => (administers() ? this.ask() : SOON_MS));
  }

  async ask() {
    const { wanted } = this;
    const [{ keys }, { changes, cursor }] = await Promise.all([
      get(`/v1/keys?limit=${KEYS}`),
      get(`/v1/audit?limit=${wanted}`),
    ]);
    this.keys = keys.sort((a, b) => a.name.localeCompare(b.name));
    this.changes = changes.map((change, place) => ({ ...change, place }));
    this.hasMore = Boolean(cursor) && wanted < CHANGES_MAX;
    this.redraw();
    return wanted === this.wanted ? undefined : 0;
  }

  keyColumns() {
    const expires = ({ expires }) =>
      !expires
        ? h('span', { class: 'muted' }, t('keys.never'))
        : Date.parse(expires) > Date.now()
          ? moment(expires)
          : tag(t('keys.expired'), 'bad');
    return [
      {
        key: 'name',
        title: t('keys.name'),
        cls: 'name key-name',
        cell: ({ id, name }) => [
          h('span', { title: name }, name),
          id === who?.id && [' ', tag(t('keys.yours'), 'accent')],
          h('code', { class: 'muted' }, id),
        ],
      },
      {
        key: 'scopes',
        title: t('keys.scopes'),
        cls: 'scopes',
        cell: ({ scopes }) => scopes.map((one) => tag(one)),
      },
      {
        key: 'topics',
        title: t('keys.topics'),
        cls: 'clip-cell',
        cell: ({ topics }) =>
          topics.includes('*')
            ? h('span', { class: 'muted' }, t('keys.all_topics'))
            : h('span', { class: 'mono', title: topics.join('\n') }, topics.join(', ')),
      },
      { key: 'rate', title: t('keys.rate'), cls: 'rate', minor: true, cell: ({ rate }) => rate ?? '–' },
      {
        key: 'expires',
        title: t('keys.expires'),
        cls: 'when',
        minor: true,
        cell: expires,
      },
      {
        key: 'created',
        title: t('keys.created'),
        cls: 'when',
        minor: true,
        cell: ({ created }) => moment(created),
      },
      {
        key: 'revoke',
        title: h('span', { class: 'unseen' }, t('keys.revoke_action')),
        cls: 'act',
        cell: (key) =>
          button(t('keys.revoke'), () => this.revoke(key), {
            kind: 'small danger-quiet',
            'aria-label': t('keys.revoke_one', { name: key.name }),
          }),
      },
    ];
  }

  draw() {
    const head = (...more) => h('div', { class: 'head' }, h('h1', { tabindex: '-1' }, t('menu.keys')), more);
    if (who && !administers())
      return [head(), empty(t('keys.not_yours'), h('p', { class: 'muted' }, t('keys.not_yours_text')))];
    if (!this.keys) return [head(), h('p', { class: 'muted loading' }, t('loading'))];
    const make = button(t(this.keys.length ? 'keys.make' : 'keys.make_first'), () => this.make(), {
      kind: 'primary',
      iconName: 'add',
    });
    return [
      head(
        h('span', { class: 'muted num' }, t('keys.count', { count: this.keys.length })),
        h('div', { class: 'head-actions' }, make),
      ),
      !who?.keys && h('p', { class: 'note' }, t('keys.open_to_all')),
      this.keys.length
        ? h('div', { class: 'card flush keys-table' }, this.keyTable.draw(this.keys))
        : empty(t('keys.none'), h('p', { class: 'muted' }, t('keys.none_text'))),
      this.audit(),
    ];
  }

  audit() {
    const more = () => {
      this.wanted = CHANGES_MAX;
      this.look();
    };
    return card(
      t('audit.title'),
      { cls: 'flush audit', extra: h('span', { class: 'muted' }, t('audit.text')) },
      this.changes.length
        ? this.changeTable.draw(this.changes)
        : empty(t('audit.none'), h('p', { class: 'muted' }, t('audit.none_text'))),
      this.hasMore && h('p', { class: 'below' }, button(t('events.more'), more)),
    );
  }

  async make() {
    const isFirst = !who?.keys;
    const made = await ask({
      title: t(isFirst ? 'keys.make_first_title' : 'keys.make_title'),
      text: isFirst && h('p', { class: 'muted' }, t('keys.first_text')),
      fields: keyFields(isFirst),
      action: t('keys.make_action'),
      act: (form) => send('POST', '/v1/keys', readKey(form)),
    });
    if (!made) return;
    // From now on the server asks for one.
    if (isFirst) signIn(made.key);
    show(
      t('keys.made', { name: made.name }),
      h('p', {}, t('keys.made_text')),
      copyable(made.key, { cls: 'wrap', label: t('keys.copy') }),
      isFirst && h('p', { class: 'muted' }, t('keys.made_first')),
    );
    this.look();
  }

  async revoke({ id, name }) {
    const isOwn = id === who?.id;
    const gone = await ask({
      title: t('keys.revoke_title'),
      text: [
        h('p', {}, parts('keys.revoke_text', { name: h('strong', { class: 'breakable' }, name) })),
        isOwn && h('p', { class: 'trouble' }, t('keys.revoke_own')),
        h('p', { class: 'muted' }, t('cannot_undo')),
      ],
      action: t('keys.revoke_action'),
      kind: 'danger',
      act: async () => {
        await send('DELETE', `/v1/keys/${enc(id)}`);
        say(t('keys.revoked', { name }));
      },
    });
    if (!gone) return;
    // After the last one nobody is asked for any.
    if (isOwn) signOut({ asks: this.keys.length > 1 });
    this.look();
  }
}

function changeColumns() {
  const by = ({ key, name }) =>
    name || key ? h('span', { title: key }, name ?? key) : h('span', { class: 'muted' }, t('audit.no_key'));
  return [
    {
      key: 'call',
      title: t('audit.call'),
      cls: 'name',
      cell: ({ call }) => h('code', { title: call }, readable(call)),
    },
    {
      key: 'about',
      title: t('audit.about'),
      cls: 'clip-cell',
      cell: ({ about }) => about && h('span', { title: about }, about),
    },
    { key: 'by', title: t('audit.by'), cls: 'clip-cell by', cell: by },
    {
      key: 'address',
      title: t('audit.address'),
      cls: 'address',
      minor: true,
      cell: ({ address }) => h('code', {}, address),
    },
    { key: 'at', title: t('events.at'), cls: 'due-at', cell: ({ at }) => moments(at) },
  ];
}

/** A path as people wrote it. */
function readable(call) {
  try {
    return decodeURIComponent(call);
  } catch {
    return call;
  }
}

function keyFields(isFirst) {
  const scope = (name) =>
    h(
      'label',
      { class: 'check-line' },
      // The first one must be able to make others.
      h('input', { type: 'checkbox', name: `scope_${name}`, checked: isFirst && name === 'admin' }),
      h('span', {}, h('code', {}, name), ' ', h('span', { class: 'muted' }, t(`scope.${name}`))),
    );
  return [
    inDialog('name', t('keys.name'), {
      required: true,
      maxlength: 100,
      placeholder: isFirst ? 'root' : 'shop',
      hint: t('keys.name_hint'),
    }),
    h('fieldset', { class: 'scope-fields' }, h('legend', {}, t('keys.scopes')), SCOPES.map(scope)),
    !isFirst &&
      inDialog('topics', t('keys.topics'), {
        rows: 2,
        placeholder: 'order.*',
        hint: t('keys.topics_hint'),
        cls: 'code',
      }),
    h(
      'div',
      { class: 'grid-2' },
      inDialog('expires_in', t('keys.expires_in'), { placeholder: '90d', hint: t('keys.expires_hint') }),
      inDialog('rate', t('keys.rate'), { placeholder: '600/m', hint: t('keys.rate_hint') }),
    ),
  ];
}

/** A form as the API takes it; what is empty is left to the server. */
function readKey(form) {
  const topics = (form.topics ?? '')
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean);
  const key = { name: form.name.trim(), scopes: SCOPES.filter((name) => form[`scope_${name}`]) };
  if (!key.scopes.length) throw new Error(t('keys.no_scope'));
  if (topics.length) key.topics = topics;
  for (const name of ['expires_in', 'rate']) if (form[name].trim()) key[name] = form[name].trim();
  return key;
}
