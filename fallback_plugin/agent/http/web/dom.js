/** Building elements. Text only ever becomes text: markup comes from markdown.js alone. */

/**
 * Return a new element.
 * @param {string} name the tag, with classes behind dots: `button.icon-button`.
 * @param {object} attributes `on*` are listeners; null and false are left out; `data` is the dataset.
 * @param {...(Node|string|null)} children
 */
export function element(name, attributes = {}, ...children) {
  const [tag, ...classes] = name.split('.');
  const made = document.createElement(tag);
  if (classes.length) made.className = classes.join(' ');
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === 'data') Object.assign(made.dataset, value);
    else if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? '' : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** Return an icon; its meaning stands in the text or label beside it. */
export function icon(name) {
  return element(`i.icon.icon-${name}`, { 'aria-hidden': 'true' });
}

/** Return a button that shows an icon and is named by words. */
export function iconButton(name, label, onclick, attributes = {}) {
  return element(
    'button.icon-button',
    { type: 'button', 'aria-label': label, title: label, onclick, ...attributes },
    icon(name),
  );
}

/** Return a button with words. */
export function button(words, onclick, { kind = '', ...attributes } = {}) {
  return element(`button.button${kind && `.${kind}`}`, { type: 'button', onclick, ...attributes }, words);
}

/** Return the element of the page with an id. */
export function byId(id) {
  return document.getElementById(id);
}
