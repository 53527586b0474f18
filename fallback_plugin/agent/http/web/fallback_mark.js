/** The mark on an answer that another model gave: what failed, why, and until when. */

import { element, icon } from './dom.js';
import { clock, failureWords, modelName } from './words.js';

/** Return the marks of an answer, one for each model that failed before it. */
export function fallbackMarks(info) {
  return (info.fallbacks ?? []).map((fallback) => {
    const summary = element(
      'summary',
      {},
      icon('chevron'),
      icon('switch'),
      element('span.model', {}, modelName(fallback.failed)),
      element('span.why', {}, why(fallback)),
      element(
        'span.next',
        {},
        element('span', { 'aria-hidden': 'true' }, '→'),
        element('span.unseen', {}, ', so the next model answered: '),
        element('span.model', {}, modelName(fallback.next)),
      ),
    );
    return element('details.fallback', { data: { kind: fallback.kind } }, summary, facts(fallback));
  });
}

function why({ kind, status, resets }) {
  const words = failureWords(kind, status);
  return resets ? `${words}, until ${clock(resets)}` : words;
}

function facts(fallback) {
  const rows = [
    ['When', clock(fallback.time)],
    ['Kind', fallback.kind],
    ['Resets', fallback.resets ? clock(fallback.resets) : 'the provider did not say'],
    ['Said', fallback.message],
  ];
  return element(
    'dl',
    {},
    ...rows.filter(([, value]) => value).flatMap(([name, value]) => [element('dt', {}, name), element('dd', {}, value)]),
  );
}
