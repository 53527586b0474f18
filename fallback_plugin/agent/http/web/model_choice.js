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
    this.agent.addEventListener('change', () => this.#fill());
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
    const { providers, agents } = this.#state;
    const models = providers.flatMap(({ id, models: its }) => Object.keys(its).map((name) => `${id}/${name}`));
    options(this.agent, agents.map(({ name }) => same(name)));
    options(this.model, [['', this.#unsaid()], ...models.map(same)]);
    this.agent.hidden = agents.length < 2;
    this.model.hidden = models.length === 0;
  }

  /** Return the model that the host chooses: the session's, but for a change to an agent with its own. */
  #unsaid() {
    const { agents, defaultModel, providers, sessions } = this.#state;
    const { model, agent: before = agents[0]?.name } = sessions.get(this.#id) ?? {};
    const { name, model: own } = agents.find((each) => each.name === this.agent.value) ?? {};
    const last = providers.some(({ id, models }) => id === model?.providerID && model.id in models) && model;
    if (last && (name === before || !own)) return `${last.providerID}/${last.id} (as before)`;
    return own ? `${own.providerID}/${own.modelID} (of ${name})` : `${defaultModel ?? 'none is set'} (default)`;
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
