/** A text that grows on the screen: rendered as Markdown, no more often than the screen can follow. */

import { rendered } from './markdown.js';

const SHARE = 4; // at most a quarter of the time goes into rendering
const SHORTEST_MS = 40;

export class StreamingText {
  #shown = null;
  #wanted = '';
  #timer = 0;
  #cost = 0;

  constructor(element) {
    this.element = element;
  }

  /** Show a text; `settled` says that it does not grow any more. */
  set(text, { settled }) {
    this.#wanted = text;
    if (text === this.#shown) return;
    if (settled || this.#shown === null) this.#render();
    else this.#timer ||= setTimeout(() => this.#render(), Math.max(SHORTEST_MS, this.#cost * SHARE));
  }

  #render() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    const begun = performance.now();
    this.element.replaceChildren(rendered(this.#wanted));
    this.#shown = this.#wanted;
    this.#cost = performance.now() - begun;
  }
}
