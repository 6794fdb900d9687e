import type { IncomingHttpHeaders } from 'node:http';

/** Maximum number of headers of a response that are stored. */
export const MAX_HEADERS = 20;
/** Maximum size of the stored headers of one response, as JSON. Bytes. */
export const HEADERS_BYTES = 2_048;
/** Maximum length of a stored name or value. UTF-16 code units. */
const MAX_LENGTH = 200;
/** Bytes that the entry about further headers needs. */
const REST_BYTES = 64;

/** Stands at the end of what was cut, and is the name of the entry about further headers. No header has this name. */
export const CUT = '…';
/** Stands for a value that may be a credential. */
export const LEFT_OUT = '(not stored)';

/** Names of headers whose values may be credentials of the receiver. */
const SECRET_NAME =
  /cookie|auth|token|secret|passw|credential|session|signature|csrf|xsrf|jwt|api-?key|access-?key/;
/** Challenges are no credentials, and explain a 401. Other answers of an authentication may be credentials. */
const CHALLENGES: ReadonlySet<string> = new Set(['www-authenticate', 'proxy-authenticate']);
/** A credential of an HTTP scheme, or a signed token, in a header with any name. */
const SECRET_VALUE = /^\s*(?:bearer|basic|digest|negotiate)\s|\beyJ[\w-]{8}/i;
/** A challenge with data of an authentication in progress, such as `Negotiate oYG2…`. */
const CHALLENGE_DATA = /^\s*(?:negotiate|ntlm|kerberos)\s/i;
/** Values of these headers are addresses. Their queries often have tokens, so only the rest is stored. */
const ADDRESSES: ReadonlySet<string> = new Set([
  'location',
  'content-location',
  'refresh',
  'link',
  'referer',
]);

/**
 * Returns the headers of a response in the form in which they are stored: a JSON object of texts, in their order, at
 * most 20 and 2 KiB; empty without headers. Longer names and values end with `…`. Values that may be credentials are
 * `(not stored)`. The entry `…` says how many more there were.
 */
export function packHeaders(headers: IncomingHttpHeaders): string {
  const all = Object.entries(headers).filter(([, value]) => value !== undefined);
  if (all.length === 0) return '';
  const packed: [string, string][] = [];
  let bytes = '{}'.length;
  for (const [name, value] of all.slice(0, MAX_HEADERS)) {
    const entry = [cut(textOf(name)), storedValue(name, textOf(value))] as const;
    // The quotes, the colon and the comma belong to the entry.
    const size = Buffer.byteLength(JSON.stringify(entry));
    if (bytes + size + REST_BYTES > HEADERS_BYTES) break;
    bytes += size;
    packed.push([...entry]);
  }
  const rest = all.length - packed.length;
  if (rest > 0) packed.push([CUT, `${rest} more, not stored`]);
  return JSON.stringify(Object.fromEntries(packed));
}

function storedValue(name: string, value: string): string {
  if (CHALLENGES.has(name)) return CHALLENGE_DATA.test(value) ? LEFT_OUT : cut(value);
  if (SECRET_NAME.test(name) || SECRET_VALUE.test(value)) return LEFT_OUT;
  return cut(ADDRESSES.has(name) ? withoutSecrets(value) : value);
}

/** An address without its user, query and fragment. */
function withoutSecrets(address: string): string {
  return address.replace(/\/\/[^/?#]*@/g, '//').replace(/[?#].*$/s, `?${CUT}`);
}

/** The beginning of a value, without control characters: PostgreSQL cannot store NUL. */
function textOf(value: string | readonly string[] | undefined): string {
  const text = typeof value === 'string' ? value : (value ?? []).join(', ');
  return text.slice(0, 2 * MAX_LENGTH).replace(/\p{Cc}/gu, ' ');
}

function cut(text: string): string {
  return text.length <= MAX_LENGTH ? text : `${text.slice(0, MAX_LENGTH).toWellFormed()}${CUT}`;
}
