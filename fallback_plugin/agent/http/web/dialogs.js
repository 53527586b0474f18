/** Questions the page itself asks, and the list of shortcuts. */

import { button, element } from './dom.js';

/** Ask whether something shall be done that cannot be undone. */
export function confirmed(question, consequence, action) {
  return shown((close) => [
    element('h2', {}, question),
    element('p', {}, consequence),
    row(button('Cancel', () => close(false), { autofocus: true }), button(action, () => close(true), { kind: 'danger' })),
  ]);
}

/** Ask for a name; null if none is given. */
export function namedBy(question, current) {
  const input = element('input', { value: current, 'aria-label': 'Name', maxlength: 200, autofocus: true });
  return shown((close) => {
    input.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && !event.isComposing) close(input.value.trim() || null);
    });
    return [
      element('h2', {}, question),
      input,
      row(button('Cancel', () => close(null)), button('Save', () => close(input.value.trim() || null), { kind: 'primary' })),
    ];
  }, () => input.select());
}

/** Show the keyboard shortcuts. */
export function showShortcuts(shortcuts) {
  return shown((close) => [
    element('h2', {}, 'Keyboard'),
    element(
      'dl.keys',
      {},
      ...shortcuts.flatMap(({ keys, does }) => [
        element('dt', {}, ...keys.map((key) => element('kbd', {}, key))),
        element('dd', {}, does),
      ]),
    ),
    row(button('Close', () => close(null), { autofocus: true })),
  ]);
}

function row(...buttons) {
  return element('div.row.end', {}, ...buttons);
}

function shown(content, opened = () => {}) {
  return new Promise((resolve) => {
    const dialog = element('dialog');
    let answer = null;
    const close = (value) => {
      answer = value;
      dialog.close();
    };
    dialog.append(...content(close));
    dialog.setAttribute('aria-label', dialog.querySelector('h2').textContent);
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(answer);
    });
    dialog.addEventListener('click', (event) => event.target === dialog && dialog.close());
    document.body.append(dialog);
    dialog.showModal();
    opened();
  });
}
