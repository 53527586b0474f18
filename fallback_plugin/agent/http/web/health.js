/** Which models may be asked, which are left alone for how long, and the switches that led there. */

import { api } from './api.js';
import { element, icon } from './dom.js';
import { clock, duration, failureWords } from './words.js';

const REFRESH_MS = 5_000;

export class HealthView {
  #app;
  #timer = 0;
  #health = null;
  #offset = 0;
  #chains = element('div.chains');
  #switches = element('ol.switches');

  /** @param app `toasts`, `titleOf(session)` */
  constructor(app) {
    this.#app = app;
    this.element = element(
      'section.health',
      { 'aria-label': 'Health' },
      element('div.column', {}, element('h2', {}, 'Chains'), this.#chains, element('h2', {}, 'Switches'), this.#switches),
    );
  }

  setShown(isShown) {
    if (isShown === this.#timer > 0) return;
    clearInterval(this.#timer);
    this.#timer = isShown ? setInterval(() => this.#tick(), 1_000) : 0;
    if (isShown) this.refresh();
  }

  /** A toast of the fallback plugin says that something changed. */
  take({ type }) {
    if (type === 'tui.toast.show') this.refresh();
  }

  async refresh() {
    if (!this.#timer) return;
    try {
      const [health, switches] = await Promise.all([api.health(), api.switches()]);
      this.#health = health;
      this.#offset = health.now - Date.now();
      this.#read = Date.now();
      this.#showChains();
      this.#showSwitches(switches);
    } catch (error) {
      if (!error.isOffline) this.#app.toasts.failed('Health was not read', error);
    }
  }

  #read = 0;

  #tick() {
    if (Date.now() - this.#read > REFRESH_MS) this.refresh();
    else if (this.#health) this.#showChains();
  }

  #showChains() {
    const now = Date.now() + this.#offset;
    const { chains } = this.#health;
    const shown = chains.length
      ? chains.map((chain) => chainView(chain, now))
      : [element('p.empty', {}, 'No chain is set: name fallback_models in fallback.toml.')];
    this.#chains.replaceChildren(...shown);
  }

  #showSwitches(switches) {
    const shown = switches.length
      ? switches.map((each) => switchView(each, this.#app.titleOf(each.session)))
      : [element('li.empty', {}, 'No model has been switched yet.')];
    this.#switches.replaceChildren(...shown);
  }
}

function chainView({ agent, models }, now) {
  const rows = models.map((model, at) => modelRow(model, at, now));
  return element(
    'section.chain',
    {},
    element('h3', {}, agent === null ? 'Every agent' : `Agent ${agent}`),
    element('ol', {}, ...rows),
  );
}

function modelRow({ model, state, until, reason, scope, failures }, at, now) {
  const left = until ? until - now : 0;
  const isClosed = state === 'closed' && left > 0;
  const shown = isClosed ? 'closed' : state === 'open' || state === 'unavailable' ? state : 'probe';
  const words = {
    open: 'Ready',
    closed: `Resting for ${duration(left)}`,
    probe: 'Tried again with the next request',
    unavailable: 'Not asked by this host',
  }[shown];
  return element(
    'li.health-row',
    { data: { state: shown } },
    element('span.dot', { 'aria-hidden': 'true' }),
    element('span.model', {}, model),
    element('span.place', {}, at === 0 ? 'first choice' : ''),
    element('span.words', {}, words),
    shown === 'open' ? null : element('span.why', {}, state === 'unavailable' ? reason : closureWords({ reason, scope, failures, until })),
  );
}

function closureWords({ reason, scope, failures, until }) {
  const closes = scope === 'model' ? '' : `, closes the whole ${scope}`;
  const times = failures > 1 ? `, ${failures} times in a row` : '';
  return `${failureWords(reason)}${closes}${times}; until ${clock(until)}`;
}

const DECISIONS = { switch: 'Switched', retry: 'Tried once more', exhausted: 'No model left', redirect: 'Kept from a closed model' };

function switchView({ at, session, decision, why }, title) {
  return element(
    'li.switch',
    { data: { decision } },
    element('time', { datetime: new Date(at).toISOString() }, clock(at)),
    element(
      'div',
      {},
      element(
        'p',
        {},
        icon('switch'),
        element('b', {}, DECISIONS[decision] ?? decision),
        why ? element('span.model', {}, why.failed) : null,
        why?.taken ? element('span', { 'aria-label': 'to' }, '→') : null,
        why?.taken ? element('span.model', {}, why.taken) : null,
      ),
      why ? element('p.why', {}, failureWords(why.kind, why.http_status)) : null,
      element('a.quiet-link', { href: `#/session/${encodeURIComponent(session)}` }, title),
    ),
  );
}
