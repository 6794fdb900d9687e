import type { IncomingHttpHeaders } from 'node:http';
import type { Operation } from '../../services/contract/operation.ts';
import { bearerOf } from '../auth/bearer.ts';
import type { Caller } from '../auth/caller.ts';
import { keyIdIn } from '../auth/key-format.ts';

// The values of `WWW-Authenticate`. Bodies of errors are fixed by the interface, so the help is here.

const KEY = 'ApiKey realm="rms", header="X-Authorization"';

/** How to send an API key. When the request has a key at a wrong place, it says so. */
export function keyChallenge(headers: IncomingHttpHeaders): string {
  const hint = misplacedKey(headers);
  return hint === undefined ? KEY : `${KEY}, error="invalid_request", error_description="${hint}"`;
}

/** The challenge of an operation that takes only API keys. A token, which it does not read, gets a hint. */
export function keyOnlyChallenge(headers: IncomingHttpHeaders): string {
  const hasToken = bearerOf(headers.authorization) !== undefined;
  if (!hasToken || headers['x-authorization'] !== undefined || misplacedKey(headers)) {
    return keyChallenge(headers);
  }
  const hint = 'this operation takes an API key in X-Authorization, and no token';
  return `${KEY}, error="invalid_request", error_description="${hint}"`;
}

/** The challenge of RFC 6750, section 3; without an error code when no token was sent. */
export function bearerChallenge(operation: Operation, error?: string): string {
  const reason = error === undefined ? '' : `, error="${error}"`;
  return `Bearer realm="rms"${reason}, scope="${operation.scope}"`;
}

/** A rejected token. When it is an API key, the challenge also says how to send a key. */
export function tokenChallenge(operation: Operation, headers: IncomingHttpHeaders): string {
  const challenge = bearerChallenge(operation, 'invalid_token');
  return misplacedKey(headers) === undefined ? challenge : `${challenge}, ${keyChallenge(headers)}`;
}

/** Names the scope that a valid credential lacks. */
export function scopeChallenge(operation: Operation, { scheme }: Pick<Caller, 'scheme'>): string {
  if (scheme === 'bearer') return bearerChallenge(operation, 'insufficient_scope');
  return `${KEY}, error="insufficient_scope", scope="${operation.scope}"`;
}

/** Why a key in these headers is not read; undefined without such a key. Says nothing about whether the key is valid. */
function misplacedKey(headers: IncomingHttpHeaders): string | undefined {
  const { authorization = '', 'x-api-key': other } = headers;
  if (/^bearer\s/i.test(String(headers['x-authorization'] ?? ''))) {
    return 'send the key alone, without Bearer';
  }
  if (headers['x-authorization'] !== undefined) return undefined;
  if (other !== undefined) return 'send the key in X-Authorization, not in X-Api-Key';
  const credential = authorization.trim().replace(/^\w+\s+/, '');
  if (keyIdIn(credential) === undefined) return undefined;
  return 'send the key alone in X-Authorization, not in Authorization';
}
