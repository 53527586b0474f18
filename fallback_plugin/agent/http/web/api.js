/** The host's calls, as `GET /doc` describes them. */

const ANSWER_WITHIN_MS = 30_000;

/** A call that the host refused (`status`), or that did not reach it (`status` is 0). */
export class CallError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }

  get isOffline() {
    return this.status === 0;
  }
}

/** Return where a path is: without the password that the address of the page may hold, which fetch refuses. */
export const addressOf = (path) => new URL(path, location.origin);

async function call(method, path, { body, headers = {}, signal } = {}) {
  const limit = AbortSignal.timeout(ANSWER_WITHIN_MS);
  let response;
  try {
    response = await fetch(addressOf(path), {
      method,
      headers: body === undefined ? headers : { 'content-type': 'application/json', ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
      redirect: 'error',
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new CallError('The host cannot be reached.', 0);
  }
  if (!response.ok) throw new CallError(await reason(response), response.status);
  return response;
}

async function reason(response) {
  try {
    const said = await response.json();
    return said.data?.message ?? said.message ?? `The host answered ${response.status}.`;
  } catch {
    return `The host answered ${response.status}.`;
  }
}

async function json(method, path, options) {
  return (await call(method, path, options)).json();
}

const at = (session, rest = '') => `/session/${encodeURIComponent(session)}${rest}`;

export const api = {
  sessions: () => json('GET', '/session'),
  session: (id) => json('GET', at(id)),
  create: () => json('POST', '/session', { body: {} }),
  rename: (id, title) => json('PATCH', at(id), { body: { title } }),
  remove: (id) => json('DELETE', at(id)),
  fork: (id, messageID) => json('POST', at(id, '/fork'), { body: messageID ? { messageID } : {} }),
  revert: (id, messageID) => json('POST', at(id, '/revert'), { body: { messageID } }),
  unrevert: (id) => json('POST', at(id, '/unrevert')),
  status: () => json('GET', '/session/status'),
  message: (id, messageID) => json('GET', at(id, `/message/${encodeURIComponent(messageID)}`)),
  prompt: (id, body, key) =>
    call('POST', at(id, '/prompt_async'), { body, headers: { 'idempotency-key': key } }),
  cancel: (id, mode) => json('POST', at(id, '/cancel'), { body: { mode } }),
  waiting: () => json('GET', '/run'),
  send: (run) => json('POST', `/run/${encodeURIComponent(run)}/send`),
  discard: (run) => json('POST', `/run/${encodeURIComponent(run)}/discard`),
  questions: () => json('GET', '/permission'),
  reply: (question, reply) =>
    json('POST', `/permission/${encodeURIComponent(question)}/reply`, { body: { reply } }),
  providers: () => json('GET', '/config/providers'),
  agents: () => json('GET', '/agent'),
  config: () => json('GET', '/config'),
  health: () => json('GET', '/health'),
  switches: () => json('GET', '/switches'),
};

/** Ask for a page of messages, as the history pager wants it. */
export async function messagePage({ sessionID, limit, order, before, after }, signal) {
  const query = new URLSearchParams({ limit });
  if (order === 'asc') query.set('order', 'asc');
  if (before) query.set('before', before);
  if (after) query.set('after', after);
  const response = await call('GET', at(sessionID, `/message?${query}`), { signal });
  const next = response.headers.get('x-next-cursor');
  return {
    items: await response.json(),
    nextBefore: order === 'asc' ? null : next,
    nextAfter: order === 'asc' ? next : null,
    revision: Number(response.headers.get('x-revision')),
  };
}
