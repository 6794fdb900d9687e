import type { IncomingHttpHeaders } from 'node:http';

/** Maximum number of headers of a response that are stored. */
export const MAX_HEADERS = 20;
/** Maximum size of the stored headers of one response, as JSON. Bytes. */
export const HEADERS_BYTES = 2_048;
/** Maximum length of a name or value that is stored. UTF-16 code units. */
const MAX_LENGTH = 200;
/** Bytes that are kept free for the entry about headers that were left out. */
const REST_BYTES = 64;

/**
 * Marks the end of a text that was cut. It is also the name of the entry about headers that were left out. No header
 * has this name.
 */
const CUT = '…';
/** Replaces a value that may be a credential. */
export const LEFT_OUT = '(not stored)';

/** Matches names of headers whose values may be credentials of the receiver. */
const SECRET_NAME =
  /cookie|auth|token|secret|passw|credential|session|signature|csrf|xsrf|jwt|api-?key|access-?key/;
/**
 * Challenges. They are no credentials, and explain a 401. Values of other authentication headers may be credentials.
 */
const CHALLENGES: ReadonlySet<string> = new Set(['www-authenticate', 'proxy-authenticate']);
/** Matches a value that is a credential of an HTTP scheme, or a signed token. The header may have any name. */
const SECRET_VALUE = /^\s*(?:bearer|basic|digest|negotiate)\s|\beyJ[\w-]{8}/i;
/** Matches a challenge that contains data of an authentication in progress, such as `Negotiate oYG2…`. */
const CHALLENGE_DATA = /^\s*(?:negotiate|ntlm|kerberos)\s/i;
/** Headers whose values are addresses. Their queries often contain tokens, so only the other parts are stored. */
const ADDRESSES: ReadonlySet<string> = new Set([
  'location',
  'content-location',
  'refresh',
  'link',
  'referer',
]);

/**
 * Returns the headers of a response in the form in which they are stored: a JSON object of texts, in their order, with
 * at most 20 headers and 2 KiB; empty when there are none. Longer names and values are cut and end with `…`. `(not
 * stored)` replaces values that may be credentials. The entry `…` says how many headers were left out.
 */
export function packHeaders(headers: IncomingHttpHeaders): string {
  const all = Object.entries(headers).filter(([, value]) => value !== undefined);
  if (all.length === 0) return '';
  const packed: [string, string][] = [];
  let bytes = '{}'.length;
  for (const [name, value] of all.slice(0, MAX_HEADERS)) {
    const entry = [cut(textOf(name)), storedValue(name, textOf(value))] as const;
    // The size includes the quotes, the colon and the comma of the entry.
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

/** Returns an address without its user, query and fragment. */
function withoutSecrets(address: string): string {
  return address.replace(/\/\/[^/?#]*@/g, '//').replace(/[?#].*$/s, `?${CUT}`);
}

/**
 * Returns the beginning of a value, with spaces in place of control characters, because PostgreSQL cannot store NUL.
 */
function textOf(value: string | readonly string[] | undefined): string {
  const text = typeof value === 'string' ? value : (value ?? []).join(', ');
  return text.slice(0, 2 * MAX_LENGTH).replace(/\p{Cc}/gu, ' ');
}

function cut(text: string): string {
  return text.length <= MAX_LENGTH ? text : `${text.slice(0, MAX_LENGTH).toWellFormed()}${CUT}`;
}
