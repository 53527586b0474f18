/** One message on the screen. */

import { element, iconButton } from './dom.js';
import { fallbackMarks } from './fallback_mark.js';
import { partView } from './parts.js';
import { duration, modelName } from './words.js';

export class MessageView {
  #parts = new Map();
  #head = element('header.byline');
  #marks = element('div.marks');
  #body = element('div.body');
  #foot = element('footer.message-foot');
  #seen = '';

  /** @param {{info: object}} message @param {object} actions what a person may do with it */
  constructor(message, actions) {
    const { id, role } = message.info;
    this.role = role;
    this.actions = actions;
    this.element = element(
      `article.message.${role === 'user' ? 'user' : 'assistant'}`,
      { data: { id }, 'aria-label': role === 'user' ? 'You' : 'Answer', tabindex: -1 },
      this.#head,
      this.#marks,
      this.#body,
      this.#foot,
    );
    if (role === 'user') this.#foot.append(...this.#tools(id));
  }

  /** Show a message as it is now; `before` is the one it follows. */
  update({ info, parts }, before) {
    this.#showParts(parts);
    const key = JSON.stringify([info, before?.info.role, before?.info.modelID, before?.info.agent]);
    if (key === this.#seen || this.role === 'user') return;
    this.#seen = key;
    this.#showHead(info, before);
    this.#marks.replaceChildren(...fallbackMarks(info));
    this.#foot.replaceChildren(...ending(info));
    this.element.classList.toggle('growing', !info.time.completed);
  }

  #showParts(parts) {
    const gone = new Set(this.#parts.keys());
    let place = this.#body.firstChild;
    for (const part of parts) {
      gone.delete(part.id);
      let view = this.#parts.get(part.id);
      if (view === undefined) {
        view = partView(part, this.role);
        this.#parts.set(part.id, view);
      }
      if (view === null) continue;
      view.update(part);
      if (view.element === place) place = place.nextSibling;
      else this.#body.insertBefore(view.element, place);
    }
    for (const id of gone) {
      this.#parts.get(id)?.element.remove();
      this.#parts.delete(id);
    }
  }

  #showHead(info, before) {
    const same =
      before?.info.role === 'assistant' &&
      before.info.modelID === info.modelID &&
      before.info.providerID === info.providerID &&
      before.info.agent === info.agent;
    this.#head.replaceChildren(
      ...(same ? [] : [element('span.model', {}, modelName(info)), element('span', {}, info.agent ?? '')]),
    );
    this.element.classList.toggle('continued', same);
  }

  #tools(id) {
    return [
      iconButton('undo', 'Take this message and all after it back', () => this.actions.undo(id)),
      iconButton('fork', 'Begin a new session with what stands before this message', () => this.actions.fork(id)),
    ];
  }
}

function ending(info) {
  const { error, time } = info;
  if (!error) {
    const isLast = info.finish && info.finish !== 'tool-calls';
    return isLast ? [element('span.took', {}, duration(time.completed - time.created))] : [];
  }
  const words = error.data?.message ?? error.name;
  if (error.name === 'MessageAbortedError') {
    return [element('p.stopped', {}, words === 'Aborted' ? 'Stopped' : words)];
  }
  return [element('p.failed', { role: 'note' }, element('b', {}, 'No model answered. '), words)];
}
