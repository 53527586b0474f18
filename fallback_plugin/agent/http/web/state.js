/** What the page knows of the host beside messages: sessions, what is busy, what waits, what is asked. */

import { api } from './api.js';

export class HostState extends EventTarget {
  sessions = new Map();
  busy = new Set();
  runs = new Map();
  questions = new Map();
  providers = [];
  agents = [];
  defaultModel = null;

  #reads = 0;

  /** Read everything anew. What arrives meanwhile as an event is newer, so it wins. */
  async read() {
    const mine = ++this.#reads;
    const changed = new Set();
    const note = (event) => changed.add(event.detail);
    this.addEventListener('touched', note);
    try {
      const [sessions, status, runs, questions] = await Promise.all([
        api.sessions(),
        api.status(),
        api.waiting(),
        api.questions(),
      ]);
      if (mine !== this.#reads) return;
      replace(this.sessions, sessions, changed);
      replace(this.runs, runs, changed);
      replace(this.questions, questions, changed);
      for (const id of this.sessions.keys()) {
        if (!changed.has(`busy ${id}`)) this.#setBusy(id, id in status);
      }
    } finally {
      this.removeEventListener('touched', note);
    }
    this.#tell();
  }

  /** Read which models and agents there are. */
  async readCatalog() {
    const [catalog, agents, config] = await Promise.all([api.providers(), api.agents(), api.config()]);
    this.providers = catalog.providers;
    this.agents = agents;
    this.defaultModel = config.model ?? null;
    this.#tell();
  }

  /** Take an event in; those that are not about this are passed over. */
  take({ type, properties }) {
    switch (type) {
      case 'session.created':
      case 'session.updated':
        this.sessions.set(properties.info.id, properties.info);
        this.#touch(properties.info.id);
        break;
      case 'session.deleted':
        this.forget(properties.info.id);
        break;
      case 'session.status':
        this.#setBusy(properties.sessionID, properties.status.type !== 'idle');
        this.#touch(`busy ${properties.sessionID}`);
        break;
      case 'run.updated':
        this.#setRun(properties.run);
        break;
      case 'run.ended':
        this.runs.delete(properties.runID);
        this.#touch(properties.runID);
        break;
      case 'permission.asked':
        this.questions.set(properties.id, properties);
        this.#touch(properties.id);
        break;
      case 'permission.replied':
        this.questions.delete(properties.requestID);
        this.#touch(properties.requestID);
        break;
      default:
        return;
    }
    this.#tell();
  }

  /** Put a session in that a call has just returned. */
  put(session) {
    this.sessions.set(session.id, session);
    this.#touch(session.id);
    this.#tell();
  }

  /** Take a session out. */
  forget(id) {
    this.sessions.delete(id);
    this.busy.delete(id);
    this.#touch(id);
    this.#tell();
  }

  /** Return the sessions that are nobody's children, the last changed first. */
  listed() {
    const roots = [...this.sessions.values()].filter((session) => !session.parentID && !session.continuedBy);
    return roots.sort((one, other) => other.time.updated - one.time.updated);
  }

  isBusy(id) {
    return this.busy.has(id) || this.waiting(id).some((run) => run.state !== 'held');
  }

  /** Return the prompts of a session that wait, in their order. */
  waiting(id) {
    return [...this.runs.values()]
      .filter((run) => run.sessionID === id)
      .sort((one, other) => one.sequence - other.sequence);
  }

  asked(id) {
    return [...this.questions.values()].filter((question) => question.sessionID === id);
  }

  #setRun(run) {
    if (run.state === 'active' || run.state === 'ended') this.runs.delete(run.id);
    else this.runs.set(run.id, run);
    this.#touch(run.id);
  }

  #setBusy(id, isBusy) {
    if (isBusy) this.busy.add(id);
    else this.busy.delete(id);
  }

  #touch(what) {
    this.dispatchEvent(new CustomEvent('touched', { detail: what }));
  }

  #tell() {
    this.dispatchEvent(new Event('change'));
  }
}

function replace(known, found, changed) {
  const ids = new Set(found.map((each) => each.id));
  for (const id of [...known.keys()]) if (!ids.has(id) && !changed.has(id)) known.delete(id);
  for (const each of found) if (!changed.has(each.id)) known.set(each.id, each);
}
