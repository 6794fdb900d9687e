import { Resolver } from 'node:dns/promises';
import { TooLate } from './failure.ts';

/** Returns all IPv4 and IPv6 addresses of a name. Rejects when there are none. */
export type Resolve = (hostname: string) => Promise<readonly string[]>;

const TRY_MS = 2_000;
const TRIES = 2;
/** Time limit to resolve a name. Milliseconds. */
const LIMIT_MS = 5_000;
/** Maximum wait for the addresses of the second family, after those of the first. Milliseconds. */
const OTHER_FAMILY_MS = 250;
/** Maximum number of names that are resolved in parallel. */
const MAX_CONCURRENT = 384;
/** How long a failure is cached, so that an endpoint with a backlog does not flood the name server. Milliseconds. */
const FAILED_MS = 2_000;
const MAX_FAILED = 1_000;

export interface NameOptions {
  /** Name servers (tests). By default those of the machine. */
  readonly servers?: readonly string[];
  readonly limitMs?: number;
  readonly maxConcurrent?: number;
}

/**
 * Creates a resolver that queries the name servers directly, with limits in time and number. It does not use Node's
 * thread pool. It also does not use the hosts file and search domains, which have only internal names. Parallel calls
 * for one name share a query. Addresses are not cached for later calls. A failure is cached for {@link FAILED_MS}.
 */
export function createResolver(o: NameOptions = {}): Resolve {
  const resolver = new Resolver({ timeout: TRY_MS, tries: TRIES });
  if (o.servers) resolver.setServers(o.servers);
  const queries = new Map<string, Promise<readonly string[]>>();
  const failed = createFailures();
  const limited = limitTo(o.maxConcurrent ?? MAX_CONCURRENT);
  const limitMs = o.limitMs ?? LIMIT_MS;

  async function query(name: string): Promise<readonly string[]> {
    try {
      return await limited(() => bothFamilies(resolver, name, limitMs));
    } catch (error) {
      failed.add(name, error);
      throw error;
    } finally {
      queries.delete(name);
    }
  }

  return async (name) => {
    failed.throwIfRecent(name);
    const running = queries.get(name) ?? query(name);
    queries.set(name, running);
    return running;
  };
}

/**
 * Returns the addresses of both families. IPv4 is first, because on a host with only one family this is usually IPv4.
 */
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
    const results = await Promise.race([both, enough, late]);
    const addresses = [...found[4], ...found[6]];
    const rejection = results?.find((result) => result.status === 'rejected');
    if (addresses.length === 0 && rejection) throw rejection.reason;
    return addresses;
  } finally {
    for (const timer of timers) clearTimeout(timer);
  }
}

/** Creates a cache of recent failures. */
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

/** Runs at most `limit` tasks in parallel. The others wait in order. */
function limitTo(limit: number) {
  let running = 0;
  const waiting: (() => void)[] = [];
  return async <T>(work: () => Promise<T>): Promise<T> => {
    if (running >= limit) await new Promise<void>((resolve) => waiting.push(resolve));
    else running += 1;
    try {
      return await work();
    } finally {
      // The next task starts in place of this one, so the number of running tasks does not change.
      const next = waiting.shift();
      if (next) next();
      else running -= 1;
    }
  };
}
