import { Resolver } from 'node:dns/promises';
import { TooLate } from './failure.ts';

/** All IPv4 and IPv6 addresses of a name; rejects when there are none. */
export type Resolve = (hostname: string) => Promise<readonly string[]>;

const TRY_MS = 2_000;
const TRIES = 2;
/** A name that is not resolved by then is not resolved. Milliseconds. */
const LIMIT_MS = 5_000;
/** How long the second family of addresses is waited for when the first is there. Milliseconds. */
const OTHER_FAMILY_MS = 250;
/** Names being resolved at once. */
const MAX_AT_ONCE = 384;
/** A failure is remembered so long, that an endpoint with a backlog does not storm the name server. Milliseconds. */
const FAILED_MS = 2_000;
const MAX_FAILED = 1_000;

export interface NameOptions {
  /** Name servers (tests); by default those of the machine. */
  readonly servers?: readonly string[];
  readonly limitMs?: number;
  readonly atOnce?: number;
}

/**
 * Asks the name servers themselves: bounded in time and number, off the thread pool, and blind to
 * the hosts file and the search domains, which know inside names only. Who asks for a name that is
 * being asked for gets the same answer; a success is not remembered beyond that.
 */
export function createResolver(o: NameOptions = {}): Resolve {
  const resolver = new Resolver({ timeout: TRY_MS, tries: TRIES });
  if (o.servers) resolver.setServers(o.servers);
  const asking = new Map<string, Promise<readonly string[]>>();
  const failed = createFailures();
  const inTurn = limitTo(o.atOnce ?? MAX_AT_ONCE);
  const limitMs = o.limitMs ?? LIMIT_MS;

  async function ask(name: string): Promise<readonly string[]> {
    try {
      return await inTurn(() => bothFamilies(resolver, name, limitMs));
    } catch (error) {
      failed.add(name, error);
      throw error;
    } finally {
      asking.delete(name);
    }
  }

  return async (name) => {
    failed.throwIfRecent(name);
    const running = asking.get(name) ?? ask(name);
    asking.set(name, running);
    return running;
  };
}

/** IPv4 first: it is the one that works where only one does. */
async function bothFamilies(
  resolver: Resolver,
  name: string,
  limitMs: number,
): Promise<readonly string[]> {
  const found: { 4: readonly string[]; 6: readonly string[] } = { 4: [], 6: [] };
  const { promise: enough, resolve: stop } = Promise.withResolvers<void>();
  const timers: NodeJS.Timeout[] = [];
  const settle = (family: 4 | 6, addresses: readonly string[]): void => {
    found[family] = addresses;
    if (addresses.length > 0) timers.push(setTimeout(stop, OTHER_FAMILY_MS));
  };
  const { promise: late, reject } = Promise.withResolvers<never>();
  timers.push(setTimeout(() => reject(new TooLate('host name not resolved in time')), limitMs));
  try {
    const both = Promise.allSettled([
      resolver.resolve4(name).then((addresses) => settle(4, addresses)),
      resolver.resolve6(name).then((addresses) => settle(6, addresses)),
    ]);
    const answers = await Promise.race([both, enough, late]);
    const addresses = [...found[4], ...found[6]];
    const refusal = answers?.find((answer) => answer.status === 'rejected');
    if (addresses.length === 0 && refusal) throw refusal.reason;
    return addresses;
  } finally {
    for (const timer of timers) clearTimeout(timer);
  }
}

/** Failures of the last moment, the newest of them. */
function createFailures() {
  const failed = new Map<string, { error: unknown; until: number }>();
  return {
    add(name: string, error: unknown): void {
      failed.delete(name);
      failed.set(name, { error, until: performance.now() + FAILED_MS });
      const [oldest] = failed.keys();
      if (failed.size > MAX_FAILED && oldest !== undefined) failed.delete(oldest);
    },
    throwIfRecent(name: string): void {
      const failure = failed.get(name);
      if (failure && failure.until > performance.now()) throw failure.error;
      failed.delete(name);
    },
  };
}

/** Runs so many at once; the others wait for their turn. */
function limitTo(most: number) {
  let running = 0;
  const waiting: (() => void)[] = [];
  return async <T>(work: () => Promise<T>): Promise<T> => {
    if (running >= most) await new Promise<void>((resolve) => waiting.push(resolve));
    else running += 1;
    try {
      return await work();
    } finally {
      // The place goes straight to the next one.
      const next = waiting.shift();
      if (next) next();
      else running -= 1;
    }
  };
}
