/** The host's event stream: it is read for ever, and goes on where it broke off. */

import { addressOf } from './api.js';
import { ListeningTurn } from './listening_turn.js';

const SILENT_FOR_MS = 25_000; // the host says something every ten seconds
const FIRST_WAIT_MS = 400;
const LONGEST_WAIT_MS = 8_000;

export class EventStream {
  #take;
  #changed;
  #last = null;
  #waited = 0;
  #wake = () => {};
  #connection = null;
  #watchdog = 0;
  #turn = new ListeningTurn(() => this.#connection?.abort());

  /**
   * @param {(event: {type: string, properties: object}) => void} take every event, in order.
   * @param {(state: 'live'|'offline'|'resting', again: boolean) => void} changed `again` if it was tried before;
   *   it rests in a tab that nobody looks at.
   */
  constructor(take, changed) {
    this.#take = take;
    this.#changed = changed;
  }

  /** Read until the page is left. */
  async run() {
    addEventListener('online', () => this.#wake());
    document.addEventListener('visibilitychange', () => this.#wake());
    addEventListener('offline', () => this.#connection?.abort());
    for (let again = false; ; again = true) {
      await this.#turn.wait();
      try {
        await this.#read(again);
      } catch {
        // Whatever broke it off, the next attempt says whether the host is there.
      }
      clearTimeout(this.#watchdog);
      if (this.#turn.isMine) {
        this.#changed('offline', again);
        await this.#pause();
      } else {
        this.#changed('resting', again);
      }
    }
  }

  async #read(again) {
    const connection = (this.#connection = new AbortController());
    this.#watch();
    const headers = this.#last === null ? {} : { 'last-event-id': this.#last };
    const response = await fetch(addressOf('/event'), { headers, signal: connection.signal, cache: 'no-store' });
    if (!response.ok) throw new Error(String(response.status));
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      this.#watch();
      const frames = (rest + value).split('\n\n');
      rest = frames.pop();
      for (const frame of frames) this.#frame(frame, again);
    }
  }

  #frame(frame, again) {
    let id = null;
    let data = '';
    for (const line of frame.split('\n')) {
      if (line.startsWith('id: ')) id = line.slice(4);
      else if (line.startsWith('data: ')) data += line.slice(6);
    }
    if (!data) return;
    const event = JSON.parse(data);
    if (event.type === 'server.connected') {
      this.#waited = 0;
      this.#changed('live', again);
    } else if (event.type !== 'server.heartbeat') {
      this.#take(event);
    }
    if (id !== null) this.#last = id;
  }

  #watch() {
    clearTimeout(this.#watchdog);
    this.#watchdog = setTimeout(() => this.#connection?.abort(), SILENT_FOR_MS);
  }

  #pause() {
    const wait = Math.min(FIRST_WAIT_MS * 2 ** this.#waited++, LONGEST_WAIT_MS);
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, wait);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
