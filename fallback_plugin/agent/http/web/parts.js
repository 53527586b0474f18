/** What an answer is made of: text, thoughts, tool calls, files. Each view is updated in place. */

import { element, icon } from './dom.js';
import { StreamingText } from './streaming_text.js';
import { duration } from './words.js';

const SHOWN_OUTPUT = 20_000;

/** Return the view of a part, null for one that is not shown. */
export function partView(part, role) {
  switch (part.type) {
    case 'text':
      if (part.synthetic || part.ignored) return null;
      return role === 'user' ? new PlainText() : new Prose();
    case 'reasoning':
      return new Thoughts();
    case 'tool':
      return new ToolCall();
    case 'file':
      return new File();
    case 'compaction':
      return new Shortened();
    default:
      return null;
  }
}

class PlainText {
  element = element('p.typed');

  update(part) {
    this.element.textContent = part.text;
  }
}

class Prose {
  element = element('div.prose');
  #text = new StreamingText(this.element);

  update(part) {
    this.#text.set(part.text ?? '', { settled: Boolean(part.time?.end) });
  }
}

/** Something folded, whose inside is made when it is opened. */
class Fold {
  #summary = element('summary');
  #inside = element('div.fold-inside');
  element = element('details.fold', {}, this.#summary, this.#inside);
  #fill = () => [];

  constructor(kind) {
    this.element.classList.add(kind);
    this.element.addEventListener('toggle', () => this.#draw());
  }

  show(summary, fill) {
    this.#summary.replaceChildren(icon('chevron'), ...summary);
    this.#fill = fill;
    this.#draw();
  }

  #draw() {
    this.#inside.replaceChildren(...(this.element.open ? this.#fill() : []));
  }
}

class Thoughts {
  #fold = new Fold('thoughts');
  element = this.#fold.element;

  update(part) {
    const { start, end } = part.time ?? {};
    const words = end ? `Thought for ${duration(end - start)}` : 'Thinking …';
    this.element.hidden = !part.text && Boolean(end);
    this.#fold.show([icon('thought'), element('span', {}, words)], () => {
      const prose = element('div.prose');
      new StreamingText(prose).set(part.text ?? '', { settled: true });
      return [prose];
    });
  }
}

const STATUS = { pending: 'Waiting', running: 'Running', completed: 'Done', error: 'Failed' };

class ToolCall {
  #fold = new Fold('tool');
  element = this.#fold.element;

  update(part) {
    const { state, tool } = part;
    this.element.dataset.status = state.status;
    const title = state.title || Object.values(state.input ?? {}).find((value) => typeof value === 'string') || '';
    this.#fold.show(
      [
        icon('tool'),
        element('b', {}, tool),
        element('span.tool-title', {}, title),
        element('span.tool-status', {}, took(state)),
      ],
      () => inside(state),
    );
  }
}

function took({ status, time }) {
  const words = STATUS[status] ?? status;
  return time?.end ? `${words} · ${duration(time.end - time.start)}` : words;
}

function inside(state) {
  const blocks = [labelled('Input', JSON.stringify(state.input ?? {}, null, 2))];
  if (state.output) blocks.push(labelled('Output', state.output));
  if (state.error) blocks.push(labelled('Error', state.error));
  return blocks;
}

function labelled(label, text) {
  const block = element('pre', { tabindex: 0, 'aria-label': label });
  const show = (shown) => block.replaceChildren(shown);
  const box = element('div.labelled', {}, element('span.label', {}, label), block);
  if (text.length <= SHOWN_OUTPUT) {
    show(text);
    return box;
  }
  show(`${text.slice(0, SHOWN_OUTPUT)} …`);
  const rest = element('button.link', { type: 'button' }, `Show all ${text.length.toLocaleString()} characters`);
  rest.addEventListener('click', () => (show(text), rest.remove()));
  box.append(rest);
  return box;
}

const PICTURE = /^data:image\/(png|jpeg|gif|webp);base64,/i;

class File {
  element = element('p.file');

  update(part) {
    const name = part.filename || part.mime;
    this.element.replaceChildren(
      PICTURE.test(part.url ?? '')
        ? element('img', { src: part.url, alt: name })
        : element('span', {}, icon('file'), name),
    );
  }
}

class Shortened {
  element = element('p.divider', {}, 'The history before this was shortened');

  update() {}
}
