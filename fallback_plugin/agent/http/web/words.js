/** How times, models and failures are said. */

export function modelName({ providerID, modelID, variant }) {
  const name = `${providerID}/${modelID}`;
  return variant && variant !== 'default' ? `${name}:${variant}` : name;
}

export function duration(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const s = ms / 1000;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 90) return `${Math.round(s)} s`;
  const minutes = Math.round(s / 60);
  if (minutes < 90) return `${minutes} min`;
  const hours = Math.round(minutes / 60);
  return hours < 48 ? `${hours} h` : `${Math.round(hours / 24)} days`;
}

export function clock(ms) {
  const date = new Date(ms);
  const time = date.toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit' });
  return isToday(date) ? time : `${date.toLocaleDateString(undefined, { month: 'short', day: 'numeric' })}, ${time}`;
}

export function day(ms) {
  const date = new Date(ms);
  return isToday(date)
    ? date.toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit' })
    : date.toLocaleDateString(undefined, { month: 'short', day: 'numeric' });
}

function isToday(date) {
  return date.toDateString() === new Date().toDateString();
}

const KINDS = {
  rate_limit: 'rate limited',
  quota: 'out of quota',
  billing: 'needs payment',
  concurrency: 'too many requests open',
  overload: 'overloaded',
  server: 'server error',
  transport: 'connection failed',
  timeout: 'did not answer in time',
  empty_response: 'answered nothing',
  auth: 'refused the key',
  model_not_found: 'unknown to its provider',
  overflow: 'context too long',
  unsupported_content: 'does not take this content',
  content_policy: 'refused the content',
  bad_request: 'refused the request',
  output_length: 'answer too long',
  model_output: 'answered out of form',
  tls: 'certificate not trusted',
  host: 'not allowed by the host',
};

/** Say what kind of failure it was, with the status where there is one. */
export function failureWords(kind, status) {
  const words = KINDS[kind] ?? 'failed';
  return status ? `${words} (${status})` : words;
}
