// Tables of which only the rows in sight exist, so that ten thousand are as quick as ten.

import { h } from './ui.js';

/** Heights of a row, as the stylesheet has them. */
const ROW = 38;
const ROW_NARROW = 66;
/** Rows beyond the edges, so that a quick scroll does not show gaps. */
const MARGIN = 12;
/** Whether it is looked at on a phone. */
export const narrow = matchMedia('(max-width: 720px)');

/**
 * A table. Columns are `{key, title, cell(row), cls, sort(row)}`; `minor` ones are left out on a
 * phone. `redraw` is called when other rows come into sight.
 */
export class Table {
  constructor({ label, columns, keyOf, rowClass, redraw, signal, order }) {
    Object.assign(this, { label, columns, keyOf, rowClass, redraw });
    this.order = order ?? null;
    this.element = null;
    const look = () => {
      const [first, last] = this.inSight(this.count ?? 0);
      if (first !== this.first || last !== this.last) redraw();
    };
    addEventListener('scroll', look, { signal, passive: true });
    addEventListener('resize', look, { signal });
  }

  /** The rows in the order that people chose. */
  sorted(rows) {
    if (!this.order) return rows;
    const { key, down } = this.order;
    const by = this.columns.find((column) => column.key === key).sort;
    const sign = down ? -1 : 1;
    return [...rows].sort((a, b) => {
      const [x, y] = [by(a) ?? -1, by(b) ?? -1];
      return x < y ? -sign : x > y ? sign : 0;
    });
  }

  inSight(count) {
    const height = narrow.matches ? ROW_NARROW : ROW;
    const top = this.element?.isConnected ? -this.element.getBoundingClientRect().top : 0;
    const first = Math.max(0, Math.min(count, Math.floor(top / height)) - MARGIN);
    return [first, Math.min(count, Math.ceil((top + innerHeight) / height) + MARGIN)];
  }

  draw(rows) {
    this.count = rows.length;
    const height = narrow.matches ? ROW_NARROW : ROW;
    const [first, last] = this.inSight(rows.length);
    Object.assign(this, { first, last });
    const gap = (key, rowCount) =>
      h('tr', { key, class: 'gap', 'aria-hidden': 'true', style: { height: `${rowCount * height}px` } });
    return h(
      'table',
      {
        class: 'table',
        role: 'table',
        'aria-label': this.label,
        'aria-rowcount': rows.length + 1,
        ref: (element) => (this.element = element),
      },
      h(
        'thead',
        { role: 'rowgroup' },
        h(
          'tr',
          { role: 'row' },
          this.columns.map((column) => this.head(column)),
        ),
      ),
      h(
        'tbody',
        { role: 'rowgroup' },
        gap('above', first),
        rows.slice(first, last).map((row, at) => this.row(row, first + at)),
        gap('below', rows.length - last),
      ),
    );
  }

  head(column) {
    const { title, cls = '', minor } = column;
    const props = { role: 'columnheader', scope: 'col', class: `${cls} ${minor ? 'minor' : ''}` };
    if (!column.sort) return h('th', props, title);
    const down = this.order?.key === column.key ? this.order.down : undefined;
    const choose = () => {
      this.order = { key: column.key, down: down === undefined ? column.key !== this.columns[0].key : !down };
      this.redraw();
    };
    return h(
      'th',
      { ...props, 'aria-sort': down === undefined ? 'none' : down ? 'descending' : 'ascending' },
      h('button', { type: 'button', class: 'sort', onclick: choose }, title),
    );
  }

  row(row, at) {
    const cells = this.columns.map(({ key, title, cell, cls = '', minor }) =>
      h(
        'td',
        {
          role: 'cell',
          class: `${cls} ${minor ? 'minor' : ''} ${key === this.order?.key ? 'sorted' : ''}`,
          'data-label': typeof title === 'string' ? title : null,
        },
        cell(row),
      ),
    );
    return h(
      'tr',
      {
        key: `row ${this.keyOf(row)}`,
        role: 'row',
        'aria-rowindex': at + 2,
        class: this.rowClass?.(row) ?? '',
      },
      cells,
    );
  }
}

/** A table of few rows, all of which are there; a phone shows all of each. */
export function plainTable(label, columns, rows, keyOf) {
  const cls = ({ cls = '', minor }) => `${cls} ${minor ? 'minor' : ''}`;
  return h(
    'table',
    { class: 'table loose', role: 'table', 'aria-label': label },
    h(
      'thead',
      { role: 'rowgroup' },
      h(
        'tr',
        { role: 'row' },
        columns.map((column) =>
          h('th', { role: 'columnheader', scope: 'col', class: cls(column) }, column.title),
        ),
      ),
    ),
    h(
      'tbody',
      { role: 'rowgroup' },
      rows.map((row, at) =>
        h(
          'tr',
          { key: keyOf(row, at), role: 'row' },
          columns.map((column) =>
            h('td', { role: 'cell', class: cls(column), 'data-label': column.title }, column.cell(row)),
          ),
        ),
      ),
    ),
  );
}
