import { Resolver } from 'node:dns/promises';
import type { LookupFunction } from 'node:net';
import { Agent, buildConnector } from 'undici';
import { judgeAddress } from '../guard/address.ts';
import { isAllowedOrigin, judgeHost, type UrlPolicy } from '../guard/guard.ts';

/** A connection that was not made because of where it would have led. */
export class AddressRefused extends Error {
  override readonly name = 'AddressRefused';
}

/** All IPv4 and IPv6 addresses of a name; rejects when there are none. */
export type Resolve = (hostname: string) => Promise<readonly string[]>;

const CONNECT_TIMEOUT_MS = 10_000;
/** A receiver that keeps connections open says so; idle ones are closed before common servers do. Milliseconds. */
const KEEP_ALIVE_MS = 4_000;
const MAX_KEEP_ALIVE_MS = 30_000;
const DNS_TRY_MS = 2_000;
const DNS_TRIES = 2;
const MAX_HEADER_BYTES = 16 * 1024;

/**
 * The HTTP client of deliveries: connects to public addresses only, judged at every connect.
 *
 * A name is resolved here, and the connection is made to the very addresses that were vetted; one
 * refused address among them refuses all. Redirects are not followed, certificates are verified.
 */
export function createDeliveryAgent(policy: UrlPolicy, resolve: Resolve = resolvePublic): Agent {
  const connector = buildConnector({
    allowH2: false,
    timeout: CONNECT_TIMEOUT_MS,
    lookup: vettedLookup(resolve),
    autoSelectFamily: true,
  });
  return new Agent({
    allowH2: false,
    pipelining: 1,
    maxHeaderSize: MAX_HEADER_BYTES,
    keepAliveTimeout: KEEP_ALIVE_MS,
    keepAliveMaxTimeout: MAX_KEEP_ALIVE_MS,
    connect(options, callback) {
      // Literal addresses are never looked up, so they are judged here.
      if (!mayConnect(options, policy)) {
        callback(new AddressRefused('the address is not allowed'), null);
        return;
      }
      connector(options, callback);
    },
  });
}

function mayConnect(o: buildConnector.Options, policy: UrlPolicy): boolean {
  const port = Number(o.port) || (o.protocol === 'https:' ? 443 : 80);
  if (isAllowedOrigin(`${o.protocol}//${o.hostname}:${port}`, policy)) {
    return !policy.refusedPorts().includes(port);
  }
  return o.protocol === 'https:' && judgeHost(o.hostname) === undefined;
}

function vettedLookup(resolve: Resolve): LookupFunction {
  return (hostname, options, callback) => {
    vet(hostname, resolve).then(
      (addresses) => {
        const [first] = addresses;
        if (options.all) callback(null, addresses);
        else callback(null, first?.address ?? '', first?.family);
      },
      (error: unknown) => {
        callback(error instanceof Error ? error : new Error(String(error)), []);
      },
    );
  };
}

async function vet(hostname: string, resolve: Resolve) {
  const addresses = await resolve(hostname);
  if (addresses.length === 0 || !addresses.every(judgeAddress)) {
    throw new AddressRefused(`${hostname} leads to an address that is not allowed`);
  }
  return addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
}

/**
 * Asks the name servers themselves: bounded in time, off the thread pool, and blind to the hosts
 * file and the search domains, which know inside names only.
 */
async function resolvePublic(hostname: string): Promise<readonly string[]> {
  const resolver = new Resolver({ timeout: DNS_TRY_MS, tries: DNS_TRIES });
  const answers = await Promise.allSettled([
    resolver.resolve4(hostname),
    resolver.resolve6(hostname),
  ]);
  const found = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
  const [failed] = answers.filter((answer) => answer.status === 'rejected');
  if (found.length === 0 && failed) throw failed.reason;
  return found;
}
