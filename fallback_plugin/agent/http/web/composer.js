/** Where a prompt is written, and how it is sent: once, whatever is pressed how often. */

import { api } from './api.js';
import { button, element, icon } from './dom.js';
import { drafts } from './drafts.js';
import { choiceOf, ModelChoice } from './model_choice.js';

export class Composer {
  #session = null;
  #sending = false;
  #attempt = null; // what was tried last, and under which key: the same again is the same prompt
  #isBusy = false;
  #told;

  /** @param {{sent: () => void, stop: (mode: string) => void, failed: (error: Error) => void}} told */
  constructor(state, told) {
    this.#told = told;
    this.choice = new ModelChoice(state);
    this.input = element('textarea', {
      id: 'draft',
      rows: 1,
      'aria-label': 'Message',
      'aria-describedby': 'draft-hint',
      placeholder: 'Ask for a change, or about the code',
      spellcheck: 'true',
    });
    this.send = element(
      'button.button.primary',
      { type: 'submit', 'aria-keyshortcuts': 'Enter' },
      icon('send'),
      element('span', {}, 'Send'),
    );
    this.steer = button('Join this answer', () => this.submit('steer'), {
      kind: 'quiet',
      hidden: true,
      title: 'Send it into the answer under way (Ctrl+Enter)',
      'aria-keyshortcuts': 'Control+Enter',
    });
    this.stop = element(
      'button.button.stop',
      { type: 'button', hidden: true, 'aria-keyshortcuts': 'Escape', onclick: () => told.stop('all') },
      icon('stop'),
      element('span', {}, 'Stop'),
    );
    this.hint = element('span.hint', { id: 'draft-hint' });
    this.element = element(
      'form.composer',
      { onsubmit: (event) => this.#submitted(event), 'aria-label': 'New message' },
      this.input,
      element('div.composer-row', {}, this.choice.element, this.hint, this.steer, this.stop, this.send),
    );
    this.input.addEventListener('input', () => this.#typed());
    this.input.addEventListener('keydown', (event) => this.#pressed(event));
    this.show({ isBusy: false });
  }

  /** Write for a session; its draft is there again. */
  open(session) {
    this.#session = session.id;
    this.#attempt = null;
    this.choice.open(session);
    this.#put(drafts.get(session.id));
  }

  /** Take the height that the draft needs; a box that is not on the page yet has none. */
  fit() {
    this.input.style.height = 'auto';
    if (this.input.scrollHeight) this.input.style.height = `${this.input.scrollHeight}px`;
  }

  /** Show whether the session is busy. */
  show({ isBusy }) {
    this.#isBusy = isBusy;
    this.stop.hidden = !isBusy;
    this.#label();
  }

  /** Add a text to the draft of the session that is shown. */
  restore(text) {
    this.giveBack(this.#session, text);
    this.input.focus();
  }

  /** Add a text that was dropped to a session's draft; nothing that is written there is lost. */
  giveBack(session, text) {
    const draft = [drafts.get(session).trimEnd(), text].filter(Boolean).join('\n\n');
    drafts.set(session, draft);
    if (session === this.#session) this.#put(draft);
  }

  get text() {
    return this.input.value;
  }

  #submitted(event) {
    event.preventDefault();
    this.submit('queue');
  }

  async submit(delivery) {
    const text = this.input.value.trim();
    if (this.#sending || !text || this.#session === null) return;
    const session = this.#session;
    const body = { parts: [{ type: 'text', text }], delivery, ...choiceOf(this.choice) };
    const said = JSON.stringify([session, body]);
    if (this.#attempt?.said !== said) this.#attempt = { said, key: newKey() };
    this.#latch(true);
    try {
      await api.prompt(session, body, this.#attempt.key);
      this.#attempt = null;
      drafts.set(session, '');
      if (this.#session === session) this.#put('');
      this.#told.sent();
    } catch (error) {
      this.#told.failed(error);
    } finally {
      this.#latch(false);
    }
  }

  #latch(sending) {
    this.#sending = sending;
    this.input.readOnly = sending;
    this.send.setAttribute('aria-disabled', String(sending));
  }

  #typed() {
    this.fit();
    this.#label();
    drafts.set(this.#session, this.input.value);
  }

  #put(text) {
    this.input.value = text;
    this.fit();
    this.#label();
  }

  #label() {
    const isEmpty = !this.input.value.trim();
    this.send.lastElementChild.textContent = this.#isBusy ? 'Queue' : 'Send';
    this.steer.hidden = !this.#isBusy || isEmpty;
    this.hint.textContent = this.#isBusy ? 'Esc stops' : 'Shift+Enter begins a line';
  }

  #pressed(event) {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.submit(event.ctrlKey || event.metaKey ? 'steer' : 'queue');
  }
}

/** A key that no other prompt has. `randomUUID` is there only where the connection is secure. */
const newKey = () => crypto.getRandomValues(new Uint32Array(4)).join('-');
