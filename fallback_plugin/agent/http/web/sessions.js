/** The list of sessions at the side. */

import { api } from './api.js';
import { element, iconButton } from './dom.js';
import { confirmed, namedBy } from './dialogs.js';
import { day } from './words.js';

export class SessionList {
  #state;
  #app;
  #rows = new Map();

  /** @param app `toasts`, `openSession(id)`, `current()` the id of the session that is shown */
  constructor(list, state, app) {
    this.list = list;
    this.#state = state;
    this.#app = app;
    state.addEventListener('change', () => this.show());
  }

  show() {
    const sessions = this.#state.listed();
    const wanted = new Set(sessions.map(({ id }) => id));
    for (const [id, row] of this.#rows) {
      if (wanted.has(id)) continue;
      row.element.remove();
      this.#rows.delete(id);
    }
    let place = this.list.firstElementChild;
    for (const session of sessions) {
      const row = this.#rows.get(session.id) ?? this.#add(session);
      this.#update(row, session);
      if (row.element === place) place = place.nextElementSibling;
      else this.list.insertBefore(row.element, place);
    }
  }

  /** Begin a session and show it; pressed twice it begins one. */
  begin() {
    this.beginning ??= this.#try('No session was begun', async () => {
      const session = await api.create();
      this.#state.put(session);
      this.#app.openSession(session.id);
    }).finally(() => (this.beginning = undefined));
    return this.beginning;
  }

  /** Show the session that many places further down. */
  step(places) {
    const sessions = this.#state.listed();
    const at = sessions.findIndex(({ id }) => id === this.#app.current());
    const next = sessions[Math.min(sessions.length - 1, Math.max(0, at + places))];
    if (next) this.#app.openSession(next.id);
  }

  async rename(id) {
    const title = await namedBy('Rename the session', this.#state.sessions.get(id)?.title ?? '');
    if (title) await this.#try('Not renamed', async () => this.#state.put(await api.rename(id, title)));
  }

  async remove(id) {
    const title = this.#state.sessions.get(id)?.title ?? 'this session';
    if (!(await confirmed(`Delete “${title}”?`, 'Its messages are deleted for good.', 'Delete'))) return;
    await this.#try('Not deleted', async () => {
      await api.remove(id);
      this.#state.forget(id);
    });
  }

  async fork(id) {
    await this.#try('Not forked', async () => {
      const fork = await api.fork(id);
      this.#state.put(fork);
      this.#app.openSession(fork.id);
    });
  }

  #add(session) {
    const { id } = session;
    const title = element('span.session-title');
    const note = element('span.session-note');
    const link = element('a.session-link', { href: `#/session/${encodeURIComponent(id)}` }, title, note);
    const tools = element(
      'span.session-tools',
      {},
      iconButton('pencil', 'Rename', () => this.rename(id)),
      iconButton('fork', 'Fork', () => this.fork(id)),
      iconButton('trash', 'Delete', () => this.remove(id)),
    );
    const row = { element: element('li', { data: { session: id } }, link, tools), link, title, note, tools };
    this.#rows.set(id, row);
    return row;
  }

  #update(row, session) {
    const { id } = session;
    const isBusy = this.#state.isBusy(id);
    const asks = this.#state.asked(id).length > 0;
    const held = this.#state.waiting(id).filter(({ state }) => state === 'held').length;
    const note = asks ? 'Asks you' : isBusy ? 'Working' : held ? `${held} held` : day(session.time.updated);
    row.element.dataset.state = asks ? 'asks' : isBusy ? 'busy' : held ? 'held' : 'idle';
    if (row.title.textContent !== session.title) row.title.textContent = session.title;
    if (row.note.textContent !== note) row.note.textContent = note;
    const labels = ['Rename', 'Fork', 'Delete'];
    [...row.tools.children].forEach((tool, at) => tool.setAttribute('aria-label', `${labels[at]} ${session.title}`));
    if (id === this.#app.current()) row.link.setAttribute('aria-current', 'page');
    else row.link.removeAttribute('aria-current');
  }

  async #try(what, work) {
    try {
      await work();
    } catch (error) {
      this.#app.toasts.failed(what, error);
    }
  }
}
