import type { IncomingHttpHeaders } from 'node:http';
import type { Operation } from '../../services/contract/operation.ts';
import { bearerOf } from '../auth/bearer.ts';
import type { Caller } from '../auth/caller.ts';
import { keyIdIn } from '../auth/key-format.ts';
import { queryOf } from '../http/query.ts';

// The values of `WWW-Authenticate`. Bodies of errors are fixed by the interface, so the help is here.

const KEY = 'ApiKey realm="rms", header="X-Authorization"';

/** What all rejected keys have in common: the text does not say whether a key exists. */
const REJECTED = 'unknown, mistyped, expired or revoked key';

/** The parts of a request in which a credential may be. */
export interface Presented {
  readonly headers: IncomingHttpHeaders;
  /** The target of the request, with its query. */
  readonly url: string;
}

/** How to send an API key. When the request has a key at a wrong place, it says so. */
export function keyChallenge(presented: Presented): string {
  const hint = misplacedKey(presented);
  return hint === undefined ? KEY : challenge('invalid_request', hint);
}

/** The challenge for a key in the right header. It is the same for every key that is not accepted. */
export function rejectedKeyChallenge({ headers }: Presented): string {
  const hint = malformedKey(headers);
  return hint === undefined
    ? challenge('invalid_token', REJECTED)
    : challenge('invalid_request', hint);
}

/** The challenge for a request without a credential that the operation reads. */
export function missingChallenge(operation: Operation, presented: Presented): string {
  if (operation.credentials === 'api-key') return keyOnlyChallenge(presented);
  const both = [bearerChallenge(operation), keyChallenge(presented)];
  return (misplacedKey(presented) === undefined ? both : both.toReversed()).join(', ');
}

/** The challenge of an operation that takes only API keys. A token, which it does not read, gets a hint. */
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
  return `Bearer realm="rms"${reason}, scope="${operation.scope}"`;
}

/** A rejected token. When it is an API key, the challenge first says how to send a key. */
export function tokenChallenge(operation: Operation, presented: Presented): string {
  const rejected = bearerChallenge(operation, 'invalid_token');
  return misplacedKey(presented) === undefined
    ? rejected
    : `${keyChallenge(presented)}, ${rejected}`;
}

/** Names the scope that a valid credential lacks. */
export function scopeChallenge(operation: Operation, { scheme }: Pick<Caller, 'scheme'>): string {
  if (scheme === 'bearer') return bearerChallenge(operation, 'insufficient_scope');
  return `${KEY}, error="insufficient_scope", scope="${operation.scope}"`;
}

function challenge(error: string, description: string): string {
  return `${KEY}, error="${error}", error_description="${description}"`;
}

/** What other services require before a key. `ApiKey` is the scheme of our own challenge. */
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

/** What is written around the key in its header; undefined when nothing is. */
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

/** Why a key of this request is not read; undefined without such a key. Says nothing about whether the key is valid. */
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

/** Whether a value of `Authorization` has a key, alone, after a scheme, or as name or password of `Basic`. */
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
