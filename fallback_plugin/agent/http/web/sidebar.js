/** The list at the side, which is a drawer where the screen is narrow. */

import { byId } from './dom.js';

export class Sidebar {
  #button = byId('open-sidebar');

  constructor() {
    this.#button.addEventListener('click', () => this.open());
    byId('close-sidebar').addEventListener('click', () => this.close());
    byId('scrim').addEventListener('click', () => this.close());
  }

  open() {
    this.#set(true);
    byId('close-sidebar').focus();
  }

  /** Close the drawer; tell whether it was open. */
  close() {
    const wasOpen = byId('app').classList.contains('sidebar-open');
    this.#set(false);
    if (wasOpen) this.#button.focus();
    return wasOpen;
  }

  #set(isOpen) {
    byId('app').classList.toggle('sidebar-open', isOpen);
    this.#button.setAttribute('aria-expanded', String(isOpen));
  }
}
