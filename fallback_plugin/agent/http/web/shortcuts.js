/** What the keys do. */

/**
 * Listen for shortcuts, and return them for the help.
 * @param app what a key may do: `stop`, `undo`, `newSession`, `step(n)`, `write`, `toStart`, `toEnd`, `health`, `help`
 */
export function listenForShortcuts(app) {
  const shortcuts = [
    { keys: ['Enter'], does: 'Send the message, or queue it while the model answers' },
    { keys: ['Shift', 'Enter'], does: 'Begin a new line' },
    { keys: ['Ctrl', 'Enter'], does: 'Send into the answer under way' },
    { keys: ['Esc'], does: 'Stop the answer and what waits behind it', on: (e) => e.key === 'Escape', run: app.stop },
    { keys: ['Alt', 'N'], does: 'New session', on: alt('KeyN'), run: app.newSession },
    { keys: ['Alt', '↑'], does: 'Previous session', on: alt('ArrowUp'), run: () => app.step(-1) },
    { keys: ['Alt', '↓'], does: 'Next session', on: alt('ArrowDown'), run: () => app.step(1) },
    { keys: ['Alt', 'Z'], does: 'Take your last message back', on: alt('KeyZ'), run: app.undo },
    { keys: ['Alt', 'Home'], does: 'Go to the first message', on: alt('Home'), run: app.toStart },
    { keys: ['Alt', 'End'], does: 'Go to the last message', on: alt('End'), run: app.toEnd },
    { keys: ['Alt', 'H'], does: 'Health of the models', on: alt('KeyH'), run: app.health },
    { keys: ['/'], does: 'Write a message', on: outside('/'), run: app.write },
    { keys: ['?'], does: 'Show this list', on: outside('?'), run: app.help },
  ];
  document.addEventListener('keydown', (event) => {
    if (event.isComposing || document.querySelector('dialog[open]')) return;
    const found = shortcuts.find(({ on }) => on?.(event));
    if (!found) return;
    if (found.run() !== false) event.preventDefault();
  });
  return shortcuts;
}

const alt = (code) => (event) => event.altKey && !event.ctrlKey && !event.metaKey && event.code === code;

const outside = (key) => (event) =>
  event.key === key && !event.ctrlKey && !event.metaKey && !event.target.closest('textarea, input, select');
