/** Notes that come and go. Errors stay until they are closed. */

import { element, iconButton } from './dom.js';

const SHOWN_MS = 5_000;
const MOST = 5;

export class Toasts {
  #box;

  constructor(box) {
    this.#box = box;
  }

  /** Show a note. @param {{title?: string, message: string, variant?: string, duration?: number}} note */
  show({ title, message, variant = 'info', duration = SHOWN_MS }) {
    const toast = element(
      `div.toast.${['info', 'success', 'warning', 'error'].includes(variant) ? variant : 'info'}`,
      { role: variant === 'error' ? 'alert' : 'status' },
      element('div', {}, title ? element('b', {}, title) : null, element('p', {}, message)),
      iconButton('close', 'Close this note', () => toast.remove()),
    );
    this.#box.append(toast);
    while (this.#box.childElementCount > MOST) this.#box.firstElementChild.remove();
    if (variant === 'error') return;
    let timer = setTimeout(() => toast.remove(), duration);
    const hold = () => clearTimeout(timer);
    const go = () => (timer = setTimeout(() => toast.remove(), duration));
    toast.addEventListener('mouseenter', hold);
    toast.addEventListener('mouseleave', go);
    toast.addEventListener('focusin', hold);
    toast.addEventListener('focusout', go);
  }

  /** Say that something did not work. */
  failed(what, error) {
    const isPassing = error.isOffline === true;
    this.show({ title: what, message: error.message, variant: isPassing ? 'warning' : 'error' });
  }
}
