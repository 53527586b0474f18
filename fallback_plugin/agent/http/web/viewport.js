/** Keeps what a person reads where it is, whatever grows, loads or goes above it; or keeps the end in sight. */

const AT_END_PX = 24;
const NEAR_PX = 900;

export class Viewport {
  #scroller;
  #list;
  #anchor = null;
  #follows = true;
  #observer = new ResizeObserver(() => this.settle());

  /**
   * @param {HTMLElement} scroller what scrolls
   * @param {HTMLElement} list whose children are the messages
   * @param {{near: (edge: 'top'|'bottom') => void, moved: (follows: boolean) => void}} told
   */
  constructor(scroller, list, told) {
    this.#scroller = scroller;
    this.#list = list;
    scroller.addEventListener('scroll', () => this.#scrolled(told), { passive: true });
    this.#observer.observe(scroller);
  }

  /** Whether the end stays in sight as the answer grows. */
  get follows() {
    return this.#follows;
  }

  /** Watch an element whose height may change late, as that of an image. */
  watch(element) {
    this.#observer.observe(element);
  }

  unwatch(element) {
    this.#observer.unobserve(element);
  }

  /** Change the list; what was read stays where it was. */
  hold(change) {
    this.#note();
    change();
    this.settle();
  }

  /** Keep the end in sight from the next change on. */
  follow() {
    this.#follows = true;
  }

  /** Go to the first message that is there. */
  toTop() {
    this.release();
    this.#scroller.scrollTop = 0;
    this.#note();
  }

  /** Follow the end no longer: a person opens something. */
  release() {
    this.#follows = false;
    this.#note();
  }

  /** Put things back where they were noted. */
  settle() {
    if (this.#follows) {
      this.#scroller.scrollTop = this.#scroller.scrollHeight;
    } else if (this.#anchor?.element.isConnected) {
      const moved = this.#offset(this.#anchor.element) - this.#anchor.offset;
      if (Math.abs(moved) >= 0.5) this.#scroller.scrollTop += moved;
    }
  }

  /** Tell which edges of the list are close by. */
  near() {
    const { scrollTop, scrollHeight, clientHeight } = this.#scroller;
    return { top: scrollTop < NEAR_PX, bottom: scrollHeight - scrollTop - clientHeight < NEAR_PX };
  }

  #scrolled(told) {
    const { scrollTop, scrollHeight, clientHeight } = this.#scroller;
    this.#follows = scrollHeight - scrollTop - clientHeight < AT_END_PX;
    this.#note();
    told.moved(this.#follows);
    const near = this.near();
    if (near.top) told.near('top');
    if (near.bottom) told.near('bottom');
  }

  #note() {
    const first = this.#firstVisible();
    this.#anchor = first && { element: first, offset: this.#offset(first) };
  }

  /** Find the first message whose end is below the upper edge, by halving. */
  #firstVisible() {
    const children = this.#list.children;
    const top = this.#scroller.getBoundingClientRect().top;
    let low = 0;
    let high = children.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (children[middle].getBoundingClientRect().bottom > top + 1) high = middle;
      else low = middle + 1;
    }
    return children[low] ?? null;
  }

  #offset(element) {
    return element.getBoundingClientRect().top - this.#scroller.getBoundingClientRect().top;
  }
}
