/** Which model and agent the next prompt goes to; the host chooses where nothing is picked. */

import { element } from './dom.js';

export class ModelChoice {
  #state;
  #id = null;

  constructor(state) {
    this.#state = state;
    this.model = element('select', { 'aria-label': 'Model' });
    this.agent = element('select', { 'aria-label': 'Agent' });
    this.element = element('div.choice', {}, this.model, this.agent);
    state.addEventListener('change', () => this.#fill());
    this.#fill();
  }

  /** Offer what fits a session; a choice made for another one does not stay. */
  open(session) {
    this.#id = session.id;
    this.model.value = '';
    this.agent.value = session.agent ?? '';
    this.#fill();
  }

  #fill() {
    const { providers, agents, defaultModel } = this.#state;
    const last = this.#state.sessions.get(this.#id)?.model;
    const unsaid = last ? `${last.providerID}/${last.id} (as before)` : `${defaultModel ?? 'none is set'} (default)`;
    const models = providers.flatMap(({ id, models: its }) => Object.keys(its).map((name) => `${id}/${name}`));
    options(this.model, [['', unsaid], ...models.map(same)]);
    options(this.agent, agents.map(({ name }) => same(name)));
    this.agent.hidden = agents.length < 2;
    this.model.hidden = models.length === 0;
  }
}

/** Return the part of a prompt's body that says where it goes. */
export function choiceOf({ model, agent }) {
  const [providerID, ...name] = model.value.split('/');
  return {
    ...(model.value ? { model: { providerID, modelID: name.join('/') } } : {}),
    ...(agent.value ? { agent: agent.value } : {}),
  };
}

const same = (value) => [value, value];

function options(select, wanted) {
  const key = JSON.stringify(wanted);
  if (select.dataset.options === key) return;
  const { value } = select;
  select.dataset.options = key;
  select.replaceChildren(...wanted.map(([each, words]) => element('option', { value: each }, words)));
  select.value = wanted.some(([each]) => each === value) ? value : (wanted[0]?.[0] ?? '');
}
