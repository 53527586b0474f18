// Runs before the first paint, so that a chosen theme never flashes the other one.
(() => {
  const KEY = 'theme';
  const ORDER = ['system', 'light', 'dark'];
  const root = document.documentElement;

  function chosen() {
    try {
      return ORDER.includes(localStorage.getItem(KEY)) ? localStorage.getItem(KEY) : 'system';
    } catch {
      return 'system';
    }
  }

  function apply(theme) {
    if (theme === 'system') delete root.dataset.theme;
    else root.dataset.theme = theme;
  }

  function label(button) {
    const words = `Theme: ${chosen()}. Change it`;
    button.setAttribute('aria-label', words);
    button.title = words;
  }

  apply(chosen());
  addEventListener('storage', (event) => event.key === KEY && apply(chosen()));
  document.addEventListener('DOMContentLoaded', () => {
    const button = document.getElementById('theme');
    label(button);
    button.addEventListener('click', () => {
      const next = ORDER[(ORDER.indexOf(chosen()) + 1) % ORDER.length];
      try {
        localStorage.setItem(KEY, next);
      } catch {
        // Without storage the choice holds until the page is left.
      }
      apply(next);
      label(button);
    });
  });
})();
