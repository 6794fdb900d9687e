import type { IncomingHttpHeaders } from 'node:http';
import type { Operation } from '../../services/contract/operation.ts';
import { bearerOf } from '../auth/bearer.ts';
import type { Caller } from '../auth/caller.ts';
import { keyIdIn } from '../auth/key-format.ts';
import { queryOf } from '../http/query.ts';

// The values of `WWW-Authenticate`. They say how to send a key, because the interface fixes the bodies of errors.

const KEY = 'ApiKey realm="rms", header="X-Authorization"';

/** One text for all rejected keys, so that nobody learns from it whether a key exists. */
const REJECTED = 'unknown, mistyped, expired or revoked key';

/** The parts of a request in which a credential may be. */
export interface Presented {
  readonly headers: IncomingHttpHeaders;
  /** The target of the request, with its query. */
  readonly url: string;
}

/**
 * The challenge for a request without a key in the right header. If the request has a key at another place, the
 * challenge says where to send it.
 */
export function keyChallenge(presented: Presented): string {
  const hint = misplacedKey(presented);
  return hint === undefined ? KEY : challenge('invalid_request', hint);
}

/** The challenge for a rejected key in the right header. All rejected keys get the same text. */
export function rejectedKeyChallenge({ headers }: Presented): string {
  const hint = malformedKey(headers);
  return hint === undefined
    ? challenge('invalid_token', REJECTED)
    : challenge('invalid_request', hint);
}

/** The challenge for a request that has none of the credentials that the operation reads. */
export function missingChallenge(operation: Operation, presented: Presented): string {
  if (operation.credentials === 'api-key') return keyOnlyChallenge(presented);
  const both = [bearerChallenge(operation), keyChallenge(presented)];
  return (misplacedKey(presented) === undefined ? both : both.toReversed()).join(', ');
}

/**
 * The challenge of an operation that takes only API keys. When the request has a token instead, the challenge says that
 * the operation does not read it.
 */
function keyOnlyChallenge(presented: Presented): string {
  const hasToken = bearerOf(presented.headers.authorization) !== undefined;
  if (!hasToken || misplacedKey(presented) !== undefined) return keyChallenge(presented);
  return challenge(
    'invalid_request',
    'this operation takes an API key in X-Authorization, and no token',
  );
}

/** The challenge of RFC 6750, section 3; without an error code when no token was sent. */
function bearerChallenge(operation: Operation, error?: string): string {
  const reason = error === undefined ? '' : `, error="${error}"`;
  return `Bearer realm="rms"${reason}, scope="${operation.scopes[0]}"`;
}

/** The challenge for a rejected token. When the token is an API key, the challenge first says how to send a key. */
export function tokenChallenge(operation: Operation, presented: Presented): string {
  const rejected = bearerChallenge(operation, 'invalid_token');
  return misplacedKey(presented) === undefined
    ? rejected
    : `${keyChallenge(presented)}, ${rejected}`;
}

/** The challenge for a valid credential without a scope of the operation. It names the first that the entry has. */
export function scopeChallenge(operation: Operation, { scheme }: Pick<Caller, 'scheme'>): string {
  if (scheme === 'bearer') return bearerChallenge(operation, 'insufficient_scope');
  return `${KEY}, error="insufficient_scope", scope="${operation.scopes[0]}"`;
}

function challenge(error: string, description: string): string {
  return `${KEY}, error="${error}", error_description="${description}"`;
}

/** Words that other services require before a key. `ApiKey` is the scheme of our own challenge. */
const SCHEMES = [
  'Bearer',
  'ApiKey',
  'Api-Key',
  'X-Api-Key',
  'X-Authorization',
  'Token',
  'Basic',
  'Key',
];

/** What the header of the key contains besides the key, as advice; undefined when it contains nothing else. */
function malformedKey({ 'x-authorization': value = '' }: IncomingHttpHeaders): string | undefined {
  const text = String(value);
  const [first = ''] = text.trimStart().split(/[\s:=]/, 1);
  const scheme = SCHEMES.find((name) => name.toLowerCase() === first.toLowerCase());
  if (scheme !== undefined) return `send the key alone, without ${scheme}`;
  if (/^["']/.test(text)) return 'send the key alone, without quotes';
  if (/^[<{[(]/.test(text)) return 'send the key alone, without brackets';
  // RFC 9110, 5.3: several fields with one name are one list.
  return text.includes(',') ? 'send one key, in one header' : undefined;
}

/** Headers that other services read keys from. */
const OTHER_HEADERS = ['X-Api-Key', 'Api-Key', 'Apikey'] as const;

/**
 * Returns advice for a key at a place where it is not read; undefined when there is none. Does not say whether the key
 * is valid.
 */
function misplacedKey({ headers, url }: Presented): string | undefined {
  if (headers['x-authorization'] !== undefined) return malformedKey(headers);
  const other = OTHER_HEADERS.find((name) => headers[name.toLowerCase()] !== undefined);
  if (other !== undefined) return `send the key in X-Authorization, not in ${other}`;
  if (hasKey(headers.authorization)) {
    return 'send the key alone in X-Authorization, not in Authorization';
  }
  return isInQuery(url)
    ? 'send the key in X-Authorization, not in the address, which logs keep'
    : undefined;
}

/** Whether a value of `Authorization` contains a key: alone, after a scheme, or as name or password of `Basic`. */
function hasKey(authorization = ''): boolean {
  const credential = authorization.trim().replace(/^[\w-]+[\s:=]+/, '');
  const basic = Buffer.from(credential, 'base64').toString('latin1').split(':');
  return [credential, ...basic].some((part) => keyIdIn(part) !== undefined);
}

function isInQuery(url: string): boolean {
  return [...queryOf({ url })].some(
    ([name, value]) => /^api[-_]?key$/i.test(name) || keyIdIn(value) !== undefined,
  );
}
