/** Markdown to elements. The only place where text becomes markup, and only what the sanitiser lets through. */

import { Marked } from './vendor/marked/marked.esm.js';
import DOMPurify from './vendor/dompurify/purify.es.mjs';

// Tags in a text are shown as they were written, but for a few that only say how words look.
const WORDS_ONLY = /^<\/?(b|br|del|em|i|s|strong|sub|sup)\s*\/?>$/i;
const marked = new Marked({
  gfm: true,
  async: false,
  renderer: { html: ({ text }) => (WORDS_ONLY.test(text.trim()) ? text : escaped(text)) },
});

const ALLOWED = {
  ALLOWED_TAGS: [
    'a', 'b', 'blockquote', 'br', 'code', 'del', 'em', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'hr', 'i', 'img',
    'li', 'ol', 'p', 'pre', 's', 'strong', 'sub', 'sup', 'table', 'tbody', 'td', 'th', 'thead', 'tr', 'ul',
    'input',
  ],
  ALLOWED_ATTR: ['align', 'alt', 'checked', 'class', 'disabled', 'href', 'src', 'start', 'title', 'type'],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};
const LINK = /^(https?:|mailto:)/i;
const IMAGE = /^data:image\/(png|jpeg|gif|webp);base64,/i;
const LANGUAGE = /^language-[\w+#.-]{1,40}$/;

/** Return what a Markdown text looks like, as a fragment that can run nothing and load nothing. */
export function rendered(text) {
  const fragment = DOMPurify.sanitize(marked.parse(text), ALLOWED);
  for (const link of fragment.querySelectorAll('a')) mendLink(link);
  for (const image of fragment.querySelectorAll('img')) mendImage(image);
  for (const box of fragment.querySelectorAll('input')) mendBox(box);
  for (const each of fragment.querySelectorAll('[class]')) {
    if (!LANGUAGE.test(each.className)) each.removeAttribute('class');
  }
  for (const block of fragment.querySelectorAll('pre')) dressBlock(block);
  for (const table of fragment.querySelectorAll('table')) wrapTable(table);
  return fragment;
}

function escaped(text) {
  return text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

function mendLink(link) {
  if (!LINK.test(link.getAttribute('href') ?? '')) {
    link.removeAttribute('href');
    return;
  }
  link.target = '_blank';
  link.rel = 'noopener noreferrer';
}

/** Show an image that the text itself holds; one from elsewhere would tell its server who reads. */
function mendImage(image) {
  const source = image.getAttribute('src') ?? '';
  if (IMAGE.test(source)) {
    image.alt ||= 'Image';
    return;
  }
  const link = document.createElement('a');
  link.textContent = image.alt || source;
  link.setAttribute('href', source);
  mendLink(link);
  image.replaceWith(link);
}

function mendBox(box) {
  if (box.type !== 'checkbox') {
    box.remove();
    return;
  }
  box.disabled = true;
  box.setAttribute('aria-label', box.checked ? 'Done' : 'Not done');
}

function dressBlock(block) {
  block.tabIndex = 0; // a wide block is scrolled with the keys
  const copy = document.createElement('button');
  copy.type = 'button';
  copy.className = 'copy';
  copy.textContent = 'Copy';
  const frame = document.createElement('div');
  frame.className = 'code-block';
  block.replaceWith(frame);
  frame.append(block, copy);
}

function wrapTable(table) {
  const frame = document.createElement('div');
  frame.className = 'table';
  frame.tabIndex = 0;
  table.replaceWith(frame);
  frame.append(table);
}
