/** The messages of a session on the screen: what the pager holds, and more of it as a person scrolls. */

import { messagePage } from './api.js';
import { copyBlock } from './copying.js';
import { button, element } from './dom.js';
import { visible } from './history-window.js';
import { HistoryPager } from './history.js';
import { MessageView } from './message.js';
import { Viewport } from './viewport.js';

const PAGE_ROWS = 40;
const WINDOW_ROWS = 160;
const ADDED_A_FRAME = 6; // a page is drawn over several frames, for a screen that is scrolled meanwhile

export class Transcript {
  #views = new Map();
  #shown = new Map();
  #list = element('div.messages', { role: 'feed', 'aria-label': 'Conversation' });
  #edge = element('span', { role: 'status' });
  #retry = button('Try again', () => this.pager.reload(), { kind: 'small', hidden: true });
  #empty = element('p.empty', {}, 'Nothing has been said here yet.');
  #frame = 0;
  #actions;
  #told;

  /**
   * @param {object} actions what a person may do with a message
   * @param {(transcript: Transcript) => void} told after each change, and when the end is left or reached
   */
  constructor(actions, told) {
    this.#actions = actions;
    this.#told = told;
    this.element = element('div.transcript', { tabindex: 0, role: 'region', 'aria-label': 'Messages' });
    this.element.append(
      element('div.column', {}, element('p.edge', {}, this.#edge, this.#retry), this.#list, this.#empty),
    );
    this.viewport = new Viewport(this.element, this.#list, {
      near: (edge) => this.#extend(edge),
      moved: () => this.#told(this),
    });
    this.element.addEventListener('click', (event) => this.#clicked(event));
    this.pager = new HistoryPager(messagePage, null, {
      pageRows: PAGE_ROWS,
      windowRows: WINDOW_ROWS,
      changed: () => this.#changed(),
    });
  }

  /** Show the end of a session. */
  async open(session) {
    this.viewport.follow();
    this.#clear();
    await this.pager.open(session.id, { revertedTo: session.revert?.messageID ?? null });
  }

  /** Take an event in. */
  take(event) {
    this.pager.handle(event);
  }

  /** Whether the session's last message is on the screen's list, and its end in sight. */
  get atEnd() {
    return this.pager.window.newer === null && this.viewport.follows;
  }

  get messages() {
    return visible(this.pager.window);
  }

  async toStart() {
    this.viewport.release();
    if (!leads(await this.pager.jumpToStart())) return;
    this.#draw();
    this.viewport.toTop();
  }

  async toEnd() {
    if (!leads(await this.pager.jumpToLatest())) return;
    this.viewport.follow();
    this.#draw();
    this.#told(this);
  }

  #clear() {
    for (const view of this.#views.values()) this.viewport.unwatch(view.element);
    this.#views.clear();
    this.#shown.clear();
    this.#list.replaceChildren();
  }

  /** Growing text changes many times a second; the screen is drawn once a frame. */
  #changed() {
    this.#frame ||= requestAnimationFrame(() => this.#draw());
    this.#told(this);
  }

  #draw() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    this.viewport.hold(() => this.#reconcile(this.messages));
    const { window, isCurrent, underWay, error } = this.pager;
    const words = error ? `Not loaded: ${error.message} ` : edgeWords(window, underWay);
    if (this.#edge.textContent !== words) this.#edge.textContent = words;
    this.#retry.hidden = error === null;
    this.#list.hidden = this.#list.childElementCount === 0; // a feed without articles is none
    this.#empty.hidden = !isCurrent || window.messages.length > 0;
    this.#list.setAttribute('aria-busy', String(underWay !== null));
    if (error === null && this.viewport.near().top && !this.viewport.follows) this.#extend('top');
  }

  #reconcile(messages) {
    const wanted = new Set(messages.map(({ id }) => id));
    for (const [id, view] of this.#views) if (!wanted.has(id)) this.#drop(id, view);
    const [begin, end] = this.#due(messages);
    let place = this.#list.firstElementChild;
    for (let at = begin; at < end; at++) {
      const [message, before] = [messages[at], messages[at - 1] ?? null];
      const view = this.#views.get(message.id) ?? this.#add(message);
      if (this.#shown.get(message.id)?.message !== message || this.#shown.get(message.id).before !== before?.info) {
        view.update(message, before);
        this.#shown.set(message.id, { message, before: before?.info });
      }
      if (view.element === place) place = place.nextElementSibling;
      else this.#list.insertBefore(view.element, place);
    }
    if (end - begin < messages.length) this.#frame = requestAnimationFrame(() => this.#draw());
  }

  /** Tell which messages to draw now: what is drawn, and some more at either end. Where nothing is, it is all of them. */
  #due(messages) {
    const first = messages.findIndex(({ id }) => this.#views.has(id));
    if (first < 0) return [0, messages.length];
    const last = messages.findLastIndex(({ id }) => this.#views.has(id));
    return [Math.max(0, first - ADDED_A_FRAME), Math.min(messages.length, last + 1 + ADDED_A_FRAME)];
  }

  #add(message) {
    const view = new MessageView(message, this.#actions);
    this.#views.set(message.id, view);
    this.viewport.watch(view.element);
    return view;
  }

  #drop(id, view) {
    this.viewport.unwatch(view.element);
    view.element.remove();
    this.#views.delete(id);
    this.#shown.delete(id);
  }

  #extend(edge) {
    const { pager } = this;
    if (pager.underWay !== null || !pager.isCurrent) return;
    if (edge === 'top' && pager.window.older !== null) pager.loadOlder();
    if (edge === 'bottom' && pager.window.newer !== null) pager.loadNewer();
  }

  #clicked(event) {
    const target = event.target.closest('summary, .copy');
    if (target === null) return;
    if (target.matches('summary')) this.viewport.release();
    else copyBlock(target);
  }
}

/** Whether a jump has come to its end: what came too late moves nobody who reads something else by now. */
const leads = (outcome) => outcome !== 'dropped' && outcome !== 'failed';

function edgeWords(window, underWay) {
  if (underWay !== null) return 'Loading …';
  return window.older === null && window.messages.length ? 'The beginning' : '';
}
