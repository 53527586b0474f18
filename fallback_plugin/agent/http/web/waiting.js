/** The prompts of a session that wait for their turn, or were held by a restart. */

import { button, element } from './dom.js';

export class WaitingPrompts {
  element = element('ul.waiting', { 'aria-label': 'Prompts that wait' });
  #told;
  #seen = '';

  /** @param {{send: (run) => void, discard: (run) => void, restore: (run) => void, stopCurrent: () => void}} told */
  constructor(told) {
    this.#told = told;
  }

  show(runs) {
    const key = JSON.stringify(runs.map(({ id, state }) => [id, state]));
    if (key === this.#seen) return;
    this.#seen = key;
    const next = runs.find(({ state, delivery }) => state === 'queued' && delivery !== 'steer');
    this.element.replaceChildren(
      ...runs.map((run) => (run.state === 'held' ? this.#held(run) : this.#queued(run, run === next))),
    );
    this.element.hidden = runs.length === 0;
  }

  #held(run) {
    return element(
      'li.held',
      { data: { run: run.id } },
      element('span.state', {}, 'Held since a restart'),
      element('span.said', {}, run.text),
      element(
        'span.tools',
        {},
        button('Send', () => this.#told.send(run), { kind: 'small' }),
        ...this.#takenOut(run),
      ),
    );
  }

  #queued(run, isNext) {
    return element(
      `li.${run.state}`,
      { data: { run: run.id } },
      element('span.state', {}, run.delivery === 'steer' ? 'Joins this answer' : 'Waits'),
      element('span.said', {}, run.text),
      element(
        'span.tools',
        {},
        isNext
          ? button('Answer it now', this.#told.stopCurrent, {
              kind: 'small', title: 'Stop the answer under way; what waits goes on',
            })
          : null,
        ...this.#takenOut(run),
      ),
    );
  }

  #takenOut(run) {
    return [
      button('Edit', () => this.#told.restore(run), { kind: 'small', title: 'Put it into the message box instead' }),
      button('Discard', () => this.#told.discard(run), { kind: 'small' }),
    ];
  }
}
