/** The view of one session: what was said, what waits, what is asked, and where a person writes. */

import { api } from './api.js';
import { Composer } from './composer.js';
import { button, element, icon } from './dom.js';
import { drafts } from './drafts.js';
import { Questions } from './questions.js';
import { Transcript } from './transcript.js';
import { WaitingPrompts } from './waiting.js';

export class Chat {
  #state;
  #app;
  #id = null;
  #stopping = new Set();
  #wasBusy = false;

  /** @param app `toasts`, `announce(words)`, `openSession(id)` */
  constructor(state, app) {
    this.#state = state;
    this.#app = app;
    this.transcript = new Transcript(
      { undo: (id) => this.undo(id), fork: (id) => this.#fork(id) },
      () => this.#showJumps(),
    );
    this.composer = new Composer(state, {
      sent: () => this.transcript.toEnd(),
      stop: (mode) => this.stop(mode),
      failed: (error) => app.toasts.failed('The message was not sent', error),
    });
    this.questions = new Questions((question, reply) =>
      this.#try('The question was not answered', () => api.reply(question.id, reply)),
    );
    this.waiting = new WaitingPrompts({
      send: (run) => this.#try('The prompt was not sent', () => api.send(run.id)),
      discard: (run) => this.#try('The prompt was not discarded', () => api.discard(run.id)),
      restore: (run) => this.#takeOut(run),
      stopCurrent: () => this.stop('current'),
    });
    this.start = button('Start', () => this.transcript.toStart(), { kind: 'small', title: 'Go to the first message (Alt+Home)' });
    this.latest = button('Latest', () => this.transcript.toEnd(), { kind: 'pill', title: 'Go to the last message (Alt+End)' });
    this.latest.prepend(icon('down'));
    this.reverted = element('div.reverted', { role: 'status', hidden: true });
    this.element = element(
      'section.chat',
      { 'aria-label': 'Conversation' },
      this.transcript.element,
      element('div.jumps', {}, this.latest),
      element('div.dock', {}, this.questions.element, this.reverted, this.waiting.element, this.composer.element),
    );
    state.addEventListener('change', () => this.show());
  }

  /** The session that is shown. */
  get id() {
    return this.#id;
  }

  get isBusy() {
    return this.#id !== null && this.#state.isBusy(this.#id);
  }

  /** Show a session. */
  open(session) {
    if (this.#id === session.id) return;
    this.#id = session.id;
    this.#wasBusy = false;
    this.composer.open(session);
    this.show();
    this.transcript.open(session);
  }

  close() {
    if (this.#id === null) return;
    this.#id = null;
    this.transcript.pager.close();
  }

  /** Read again what could not be read while the host was away. */
  reconnected() {
    const { pager } = this.transcript;
    if (this.#id !== null && (pager.error || !pager.isCurrent)) pager.reload();
  }

  /** Take an event in. */
  take(event) {
    this.transcript.take(event);
    if (event.type === 'session.compacted' && event.properties.sessionID === this.#id) {
      const { continuedBy } = event.properties;
      if (!continuedBy) return;
      drafts.move(this.#id, continuedBy);
      this.#app.openSession(continuedBy);
    }
  }

  /** Show what the host's state says of the session. */
  show() {
    if (this.#id === null) return;
    const session = this.#state.sessions.get(this.#id);
    const { isBusy } = this;
    this.composer.show({ isBusy });
    this.waiting.show(this.#state.waiting(this.#id));
    this.questions.show(this.#state.asked(this.#id));
    this.#showReverted(session?.revert?.messageID ?? null);
    this.#showJumps();
    if (isBusy !== this.#wasBusy) {
      this.#app.announce(isBusy ? 'The model is answering.' : 'The answer is complete.');
      this.#wasBusy = isBusy;
    }
  }

  /** Stop what runs, once; what was dropped from the queue goes back into the draft. */
  async stop(mode) {
    const id = this.#id;
    if (id === null || this.#stopping.has(id)) return;
    this.#stopping.add(id);
    try {
      const { dropped } = await api.cancel(id, mode);
      this.#giveBack(id, dropped.map(({ text }) => text));
    } catch (error) {
      this.#app.toasts.failed('Not stopped', error);
    } finally {
      this.#stopping.delete(id);
    }
  }

  /** Hide a message and all after it, and put its words into an empty draft. */
  async undo(messageID) {
    const id = this.#id;
    const message = this.transcript.messages.find((each) => each.id === messageID);
    await this.#try('Nothing was taken back', async () => {
      this.#state.put(await api.revert(id, messageID));
      if (id === this.#id && message && !this.composer.text.trim()) this.composer.restore(wordsOf(message));
    });
  }

  /** Take the last message of the person's back. */
  async undoLast() {
    const last = this.transcript.messages.findLast(({ info }) => info.role === 'user');
    if (last) await this.undo(last.id);
  }

  async #fork(messageID) {
    await this.#try('The session was not forked', async () => {
      const fork = await api.fork(this.#id, messageID);
      this.#state.put(fork);
      this.#app.openSession(fork.id);
    });
  }

  async #takeOut(run) {
    await this.#try('The prompt was not taken out', async () => {
      await api.discard(run.id);
      this.#giveBack(run.sessionID, [run.text]);
    });
  }

  #giveBack(id, texts) {
    if (texts.length === 0) return;
    this.composer.giveBack(id, texts.join('\n\n'));
    const count = texts.length === 1 ? 'One waiting prompt is' : `${texts.length} waiting prompts are`;
    this.#app.toasts.show({ message: `${count} back in your draft.` });
  }

  #showReverted(messageID) {
    this.reverted.hidden = messageID === null;
    if (messageID === null || this.reverted.dataset.message === messageID) return;
    this.reverted.dataset.message = messageID;
    this.reverted.replaceChildren(
      icon('undo'),
      element('span', {}, 'Messages were taken back. Your next one deletes them.'),
      button('Restore them', () => this.#restore(), { kind: 'small' }),
    );
  }

  #restore() {
    return this.#try('Nothing was restored', async () => this.#state.put(await api.unrevert(this.#id)));
  }

  #showJumps() {
    const { window } = this.transcript.pager;
    this.start.hidden = window.older === null && this.transcript.element.scrollTop < 400;
    this.latest.hidden = this.transcript.atEnd;
  }

  async #try(what, work) {
    try {
      await work();
    } catch (error) {
      this.#app.toasts.failed(what, error);
    }
  }
}

function wordsOf({ parts }) {
  return parts.filter(({ type, synthetic }) => type === 'text' && !synthetic).map(({ text }) => text).join('\n');
}
