// JSON that keeps what JSON.parse would lose: numbers as they are written, and the text of each part.
//
// A body is kept by the server byte for byte; one that is edited here must not have its 64-bit ids
// rounded on the way.

const NUMBER = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const STRING = /"(?:[^"\\]|\\.)*"/y;
const BLANK = /[ \t\r\n]*/y;

/** A number as it is written. */
export class Num {
  constructor(text) {
    this.text = text;
  }
}

/** A part of the text as it is written, with what it says. */
export class Raw {
  constructor(text, value) {
    Object.assign(this, { text, value });
  }
}

/** Reads an answer: plain values, but `body` on top is a `Raw`, in whose value numbers are `Num`. */
export function parse(text) {
  const answer = JSON.parse(text);
  const reader = new Reader(text);
  for (const [name, from, to] of reader.topFields()) {
    if (name === 'body') answer.body = raw(text.slice(from, to));
  }
  return answer;
}

/** Text that is JSON, with what it says; throws if it is not. */
export function raw(text) {
  JSON.parse(text);
  return new Raw(text.trim(), new Reader(text).value());
}

/** JSON with line breaks, numbers as they were. */
export const pretty = (value) => written(value, '\n', ': ');
/** JSON without blanks, numbers as they were. */
export const compact = (value) => written(value, '', ':');

function written(value, line, colon) {
  const inner = line && `${line}  `;
  const all = (open, items, close) =>
    items.length ? open + inner + items.join(`,${inner}`) + line + close : open + close;
  if (value instanceof Num) return value.text;
  if (Array.isArray(value))
    return all(
      '[',
      value.map((item) => written(item, inner, colon)),
      ']',
    );
  if (!(value instanceof Map)) return JSON.stringify(value);
  const fields = [...value].map(([name, item]) => JSON.stringify(name) + colon + written(item, inner, colon));
  return all('{', fields, '}');
}

/** Walks over text that JSON.parse has found right. */
class Reader {
  constructor(text) {
    Object.assign(this, { text, at: 0 });
  }

  *topFields() {
    this.eat(BLANK);
    if (this.text[this.at] !== '{') return;
    this.at += 1;
    for (this.eat(BLANK); this.text[this.at] !== '}'; this.comma()) {
      const name = JSON.parse(this.eat(STRING));
      this.colon();
      const from = this.at;
      this.value();
      yield [name, from, this.at];
    }
  }

  value() {
    this.eat(BLANK);
    switch (this.text[this.at]) {
      case '{': {
        const fields = new Map();
        for (const [name, value] of this.fields()) fields.set(name, value);
        return fields;
      }
      case '[':
        return [...this.items()];
      case '"':
        return JSON.parse(this.eat(STRING));
      case 't':
        return this.word('true', true);
      case 'f':
        return this.word('false', false);
      case 'n':
        return this.word('null', null);
      default:
        return new Num(this.eat(NUMBER));
    }
  }

  *fields() {
    this.at += 1;
    for (this.eat(BLANK); this.text[this.at] !== '}'; this.comma()) {
      const name = JSON.parse(this.eat(STRING));
      this.colon();
      yield [name, this.value()];
    }
    this.at += 1;
  }

  *items() {
    this.at += 1;
    for (this.eat(BLANK); this.text[this.at] !== ']'; this.comma()) yield this.value();
    this.at += 1;
  }

  colon() {
    this.eat(BLANK);
    this.at += 1;
    this.eat(BLANK);
  }

  comma() {
    this.eat(BLANK);
    if (this.text[this.at] === ',') this.at += 1;
    this.eat(BLANK);
  }

  word(text, value) {
    this.at += text.length;
    return value;
  }

  eat(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)[0];
    this.at += found.length;
    return found;
  }
}
