/** Questions whether a tool may do something. */

import { button, element, icon } from './dom.js';

export class Questions {
  element = element('div.questions', { role: 'alert' });
  #reply;
  #seen = '';

  /** @param {(question: object, reply: 'once'|'always'|'reject') => Promise<void>} reply */
  constructor(reply) {
    this.#reply = reply;
  }

  show(questions) {
    const key = questions.map(({ id }) => id).join(' ');
    if (key === this.#seen) return;
    this.#seen = key;
    this.element.replaceChildren(...questions.map((question) => this.#question(question)));
    this.element.hidden = questions.length === 0;
  }

  #question(question) {
    const { permission, patterns, metadata } = question;
    const answer = (reply) => async () => {
      for (const each of box.querySelectorAll('button')) each.disabled = true;
      try {
        await this.#reply(question, reply);
      } finally {
        for (const each of box.querySelectorAll('button')) each.disabled = false;
      }
    };
    const box = element(
      'section.question',
      { data: { question: question.id }, 'aria-label': `May ${permission} do this?` },
      element('h2', {}, icon('tool'), `May ${permission} do this?`),
      metadata.title && metadata.title !== patterns[0] ? element('p', {}, metadata.title) : null,
      element('pre', { tabindex: 0, 'aria-label': 'What it would do' }, patterns.join('\n')),
      element(
        'div.row',
        {},
        button('Allow once', answer('once'), { kind: 'primary' }),
        button('Always in this session', answer('always')),
        button('Reject', answer('reject')),
      ),
    );
    return box;
  }
}
