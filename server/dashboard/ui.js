// Descriptions of elements, and the one place where they become elements.
//
// Text is only ever set as text and attributes as attributes, so what a job carries cannot become
// markup. A drawing is compared with the one before it: what has not changed is left alone, and with
// it the focus, the selection and what people type.

const SVG = 'http://www.w3.org/2000/svg';

/** Set as properties: the attributes of these names only say how an element begins. */
const PROPERTIES = new Set(['value', 'checked', 'disabled', 'open', 'indeterminate', 'selected']);

/** Describes an element. Children that are null or false are left out, lists are flattened. */
export function h(tag, props, ...kids) {
  return { tag, props: props ?? {}, kids: flat(kids) };
}

/** Each child remembers its place among those that are left out, too, so that it is known again. */
function flat(kids, into = [], place = '') {
  kids.forEach((kid, at) => {
    if (Array.isArray(kid)) flat(kid, into, `${place}${at}.`);
    else if (kid == null || kid === false || kid === true) return;
    else
      into.push(Object.assign(typeof kid === 'object' ? kid : { text: String(kid) }, { place: place + at }));
  });
  return into;
}

/** Makes what is in the element look as described. */
export function render(element, ...kids) {
  const next = flat(kids);
  patchKids(element, element.drawn ?? [], next);
  element.drawn = next;
}

/** A new element that looks as described. */
export function make(described) {
  return create(described, null);
}

function create(node, parent) {
  if (node.tag === undefined) return (node.element = document.createTextNode(node.text));
  const inSvg = node.tag === 'svg' || (parent?.namespaceURI === SVG && parent.tagName !== 'foreignObject');
  const element = inSvg ? document.createElementNS(SVG, node.tag) : document.createElement(node.tag);
  node.element = element;
  for (const kid of node.kids) element.append(create(kid, element));
  // After the children: a select takes a value only once it has the option.
  for (const name in node.props) setProp(element, name, node.props[name]);
  node.props.ref?.(element);
  return element;
}

function setProp(element, name, value) {
  if (name === 'key' || name === 'ref') return;
  if (name.startsWith('on')) element[name] = value ?? null;
  else if (name === 'style') for (const key in value) element.style.setProperty(key, value[key]);
  else if (PROPERTIES.has(name) && name in element) element[name] = value ?? (name === 'value' ? '' : false);
  else if (value == null || value === false) element.removeAttribute(name);
  else element.setAttribute(name, value === true ? '' : value);
}

function patch(old, next) {
  const element = (next.element = old.element);
  if (next.tag === undefined) {
    if (old.text !== next.text) element.data = next.text;
    return element;
  }
  patchKids(element, old.kids, next.kids);
  for (const name in old.props) if (!(name in next.props)) setProp(element, name, undefined);
  for (const name in next.props) {
    const value = next.props[name];
    if (name === 'style' || old.props[name] !== value) setProp(element, name, value);
  }
  return element;
}

function patchKids(parent, old, next) {
  const rest = new Map();
  for (const kid of old) rest.set(nameOf(kid), kid);
  const before = next.map((kid) => {
    const name = nameOf(kid);
    const found = rest.get(name);
    rest.delete(name);
    return found;
  });
  // First those that go, so that those behind them need not be moved, which would cost the focus.
  for (const gone of rest.values()) gone.element.remove();
  next.forEach((kid, at) => {
    const element = before[at] ? patch(before[at], kid) : create(kid, parent);
    const there = parent.childNodes[at];
    if (there !== element) parent.insertBefore(element, there ?? null);
  });
}

function nameOf({ tag = '', props, place }) {
  return props?.key === undefined ? `${place} ${tag}` : `key ${tag} ${props.key}`;
}
