/** Drafts, kept for each session in this browser until they are sent. */

const PREFIX = 'draft:';

export const drafts = {
  get(session) {
    try {
      return localStorage.getItem(PREFIX + session) ?? '';
    } catch {
      return '';
    }
  },

  /** Take a draft along to the session that goes on for another. */
  move(from, to) {
    const text = this.get(from);
    if (!text) return;
    this.set(to, text);
    this.set(from, '');
  },

  set(session, text) {
    try {
      if (text) localStorage.setItem(PREFIX + session, text);
      else localStorage.removeItem(PREFIX + session);
    } catch {
      // Without storage, or with a full one, the draft lives as long as the page.
    }
  },
};
