import type { IncomingMessage } from 'node:http';
import { addressOf, type ClientIp } from '../../auth/client-ip.ts';
import type { OneTimeRecords } from '../sign-in/one-time-records.ts';
import { isLoopback } from './redirect-uri.ts';

/** Maximum length of a name. Characters. */
const NAME_MAX = 60;
/** Only letters, digits, spaces and a few signs, so that a name cannot imitate other parts of a page. */
const NAME = /^[\p{L}\p{N}][\p{L}\p{M}\p{N} .,_+&'()@/-]*$/u;
/** A name that could be read as the address of a known app. */
const HOST = /\.\p{L}{2,}/u;

/**
 * The name that a program gives itself, in a form that can be shown; undefined when it is no such name. A program on the
 * user's machine can give itself any name, so pages say "calls itself", and nothing depends on it.
 */
export function selfNameOf(text: unknown): string | undefined {
  if (typeof text !== 'string' || text.length > 2 * NAME_MAX) return undefined;
  const name = text.normalize('NFKC').replace(/\s+/g, ' ').trim();
  return [...name].length <= NAME_MAX && NAME.test(name) && !HOST.test(name) ? name : undefined;
}

/** How long a registration waits for its sign-in. Seconds. */
const TTL_S = 3_600;
/** Maximum number of redirect URIs of one registration for which its name is stored. */
const URIS_MAX = 5;

/**
 * The names of registrations of programs on users' machines. A registration and its sign-in have no common id, because
 * all get the preconfigured client id. So a name is found by the redirect URI and the network address of both.
 */
export interface SelfNames {
  remember(
    req: IncomingMessage,
    o: { name: unknown; redirectUris: readonly string[] },
  ): Promise<void>;
  find(req: IncomingMessage, redirectUri: string): Promise<string | undefined>;
}

export function createSelfNames(records: OneTimeRecords, clientIp: ClientIp): SelfNames {
  const idOf = (req: IncomingMessage, uri: string): string => `${addressOf(clientIp, req)} ${uri}`;
  return {
    async remember(req, { name: text, redirectUris }) {
      const name = selfNameOf(text);
      for (const uri of redirectUris.filter(isLoopback).slice(0, URIS_MAX)) {
        // Without a name of its own, the program must not get that of an earlier one at the same address.
        if (name === undefined) await records.remove('SelfName', idOf(req, uri));
        else await records.put('SelfName', idOf(req, uri), { content: name, ttlS: TTL_S });
      }
    },
    async find(req, redirectUri) {
      if (!isLoopback(redirectUri)) return undefined;
      const record = await records.find('SelfName', idOf(req, redirectUri));
      return record?.hasExpired ? undefined : selfNameOf(record?.content);
    },
  };
}
