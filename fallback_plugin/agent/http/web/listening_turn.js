/**
 * Whether this tab may listen to the host. A browser opens six connections to one host, all tabs together, and who
 * listens takes one: with a stream in each of many tabs no call would come through any more.
 */

const IN_BACKGROUND = 'listens in the background';

/** Tabs that are looked at may listen, and one other: a person waits for its title to say that the answer is there. */
export class ListeningTurn {
  #lost;
  #come = () => {};
  #giveUp = null;

  /** @param {() => void} lost called when this tab may listen no longer */
  constructor(lost) {
    this.#lost = lost;
    document.addEventListener('visibilitychange', () => (document.hidden ? this.#hidden() : this.#shown()));
    if (document.hidden) this.#hidden();
  }

  get isMine() {
    return !document.hidden || this.#giveUp !== null;
  }

  /** Wait until this tab may listen. */
  async wait() {
    while (!this.isMine) await new Promise((resolve) => (this.#come = resolve));
  }

  #shown() {
    this.#giveUp?.();
    this.#giveUp = null;
    this.#come();
  }

  /** Locks are there only where the connection is secure; elsewhere no hidden tab listens. */
  async #hidden() {
    await navigator.locks?.request(IN_BACKGROUND, { ifAvailable: true }, (lock) => lock && this.#stay());
    if (!this.isMine) this.#lost();
  }

  #stay() {
    if (!document.hidden) return null;
    this.#come();
    return new Promise((resolve) => (this.#giveUp = resolve));
  }
}
