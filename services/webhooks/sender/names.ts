import { Resolver } from 'node:dns/promises';
import { TooLate } from './failure.ts';

/** All IPv4 and IPv6 addresses of a name; rejects when there are none. */
export type Resolve = (hostname: string) => Promise<readonly string[]>;

const TRY_MS = 2_000;
const TRIES = 2;
/** Time limit for resolving a name. Milliseconds. */
const LIMIT_MS = 5_000;
/** How long to wait for the second address family after the first. Milliseconds. */
const OTHER_FAMILY_MS = 250;
/** Maximum number of names that are resolved in parallel. */
const MAX_AT_ONCE = 384;
/** How long a failure is cached, so that an endpoint with a backlog does not flood the name server. Milliseconds. */
const FAILED_MS = 2_000;
const MAX_FAILED = 1_000;

export interface NameOptions {
  /** Name servers (tests); by default those of the machine. */
  readonly servers?: readonly string[];
  readonly limitMs?: number;
  readonly atOnce?: number;
}

/**
 * Queries the name servers directly, with limits in time and number, outside of the thread pool, and without the hosts
 * file and search domains, which contain only inside names. Parallel queries for one name share an answer. Successes
 * are not cached beyond that.
 */
export function createResolver(o: NameOptions = {}): Resolve {
  const resolver = new Resolver({ timeout: TRY_MS, tries: TRIES });
  if (o.servers) resolver.setServers(o.servers);
  const asking = new Map<string, Promise<readonly string[]>>();
  const failed = createFailures();
  const limited = limitTo(o.atOnce ?? MAX_AT_ONCE);
  const limitMs = o.limitMs ?? LIMIT_MS;

  async function ask(name: string): Promise<readonly string[]> {
    try {
      return await limited(() => bothFamilies(resolver, name, limitMs));
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

/** IPv4 first, because it is the family that works where only one does. */
async function bothFamilies(
  resolver: Resolver,
  name: string,
  limitMs: number,
): Promise<readonly string[]> {
  const found: { 4: readonly string[]; 6: readonly string[] } = { 4: [], 6: [] };
  const { promise: enough, resolve: stop } = Promise.withResolvers<void>();
  const timers: NodeJS.Timeout[] = [];
  const noteAddresses = (family: 4 | 6, addresses: readonly string[]): void => {
    found[family] = addresses;
    if (addresses.length > 0) timers.push(setTimeout(stop, OTHER_FAMILY_MS));
  };
  const { promise: late, reject } = Promise.withResolvers<never>();
  timers.push(setTimeout(() => reject(new TooLate('host name not resolved in time')), limitMs));
  try {
    const both = Promise.allSettled([
      resolver.resolve4(name).then((addresses) => noteAddresses(4, addresses)),
      resolver.resolve6(name).then((addresses) => noteAddresses(6, addresses)),
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

/** A cache of recent failures. */
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

/** Runs a limited number of tasks in parallel. The others wait in order. */
function limitTo(most: number) {
  let running = 0;
  const waiting: (() => void)[] = [];
  return async <T>(work: () => Promise<T>): Promise<T> => {
    if (running >= most) await new Promise<void>((resolve) => waiting.push(resolve));
    else running += 1;
    try {
      return await work();
    } finally {
      // The place passes directly to the next task.
      const next = waiting.shift();
      if (next) next();
      else running -= 1;
    }
  };
}
