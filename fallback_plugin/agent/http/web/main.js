/** Puts the page together. */

import { Chat } from './chat.js';
import { showShortcuts } from './dialogs.js';
import { button, byId, element } from './dom.js';
import { EventStream } from './events.js';
import { HealthView } from './health.js';
import { SessionList } from './sessions.js';
import { listenForShortcuts } from './shortcuts.js';
import { Sidebar } from './sidebar.js';
import { HostState } from './state.js';
import { Toasts } from './toasts.js';

const state = new HostState();
const toasts = new Toasts(byId('toasts'));
const app = {
  toasts,
  current: () => chat.id,
  titleOf: (id) => state.sessions.get(id)?.title ?? 'Its session',
  announce: (words) => (byId('announcer').textContent = words),
  openSession: (id) => (location.hash = `#/session/${encodeURIComponent(id)}`),
};
const chat = new Chat(state, app);
const sessions = new SessionList(byId('session-list'), state, app);
const health = new HealthView(app);
const sidebar = new Sidebar();
const welcome = element(
  'section.welcome',
  {},
  element('h2', {}, 'What shall be done?'),
  element('p', {}, 'Choose a session, or begin a new one. When a model fails, the next of your chain goes on.'),
  button('Begin a session', () => sessions.begin(), { kind: 'primary' }),
);

function show() {
  const [, place, id] = location.hash.split('/');
  const session = place === 'session' ? state.sessions.get(decodeURIComponent(id ?? '')) : undefined;
  const shown = place === 'health' ? health.element : session ? chat.element : welcome;
  if (session) chat.open(session);
  else chat.close();
  health.setShown(place === 'health');
  if (byId('view').firstElementChild !== shown) {
    byId('view').replaceChildren(shown);
    byId('tools').replaceChildren(...(session ? [chat.start] : []));
    chat.composer.fit();
  }
  const title = place === 'health' ? 'Health' : (session?.title ?? 'Sessions');
  byId('title').textContent = title;
  document.title = session && state.isBusy(session.id) ? `Working: ${title}` : title;
  byId('health-link').toggleAttribute('aria-current', place === 'health');
  sessions.show();
}

function navigated() {
  sidebar.close();
  show();
  if (chat.id !== null && matchMedia('(hover: hover)').matches) chat.composer.input.focus();
}

async function readAll() {
  try {
    await Promise.all([state.read(), state.readCatalog()]);
  } catch (error) {
    toasts.failed('The sessions were not read', error);
  }
}

function connectionChanged(connection, again) {
  if (connection === 'resting') {
    document.title = byId('title').textContent; // what is known of the work under way gets old
    return;
  }
  const note = byId('connection');
  note.hidden = connection === 'live';
  note.textContent = 'No connection to the host. What you write is kept; this page goes on by itself.';
  if (connection === 'live') {
    readAll();
    if (again) health.refresh();
    if (again) chat.reconnected();
  }
}

const stream = new EventStream((event) => {
  if (event.type === 'tui.toast.show') toasts.show(event.properties);
  if (event.type === 'server.events.lost') readAll();
  state.take(event);
  chat.take(event);
  health.take(event);
}, connectionChanged);

const shortcuts = listenForShortcuts({
  stop: () => (sidebar.close() ? undefined : chat.isBusy ? void chat.stop('all') : false),
  undo: () => void chat.undoLast(),
  newSession: () => void sessions.begin(),
  step: (places) => sessions.step(places),
  write: () => chat.composer.input.focus(),
  toStart: () => void chat.transcript.toStart(),
  toEnd: () => void chat.transcript.toEnd(),
  health: () => void (location.hash = '#/health'),
  help: () => void showShortcuts(shortcuts),
});

addEventListener('hashchange', navigated);
state.addEventListener('change', show);
byId('new-session').addEventListener('click', () => sessions.begin());
byId('skip').addEventListener('click', () => (chat.id === null ? byId('view') : chat.composer.input).focus());
byId('help').addEventListener('click', () => showShortcuts(shortcuts));
show();
stream.run();
