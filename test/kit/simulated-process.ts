import { setImmediate as soon } from 'node:timers/promises';
import type pg from 'pg';
import type { CommerceProvider } from '../../services/commerce/provider.ts';
import { StatementGroup } from '../../services/platform/postgres/statement-group.ts';
import type { Destinations } from '../../services/returns/destinations.ts';

/** Before the step sends its request, while the request is in flight, or after the request and before its response. */
export type When = 'before' | 'during' | 'after';
export const WHENS = ['before', 'during', 'after'] as const satisfies readonly When[];

export interface Kill {
  /** Number of the step, from 1. */
  readonly at: number;
  readonly when: When;
}

/**
 * A part of this process that runs as if it were a process of its own and can be killed. Each connection, statement and
 * call is a step. After the kill each step throws.
 */
export interface SimulatedProcess {
  readonly isKilled: boolean;
  readonly steps: number;
  step<T>(act: () => Promise<T>): Promise<T>;
  /** Runs `act` at the kill, or immediately after it. */
  onKill(act: () => void): void;
  /** Resolves when all requests that were in flight at the kill have ended. */
  finished(): Promise<void>;
}

class Killed extends Error {
  override readonly name = 'Killed';
}

/** Starts a simulated process. Without `kill` it is never killed. */
export function simulateProcess(kill: Kill | undefined): SimulatedProcess {
  let steps = 0;
  let isKilled = false;
  const sent: Promise<unknown>[] = [];
  const atKill: (() => void)[] = [];
  const throwKilled = (): never => {
    isKilled = true;
    for (const act of atKill.splice(0)) act();
    throw new Killed('this process was killed');
  };
  return {
    get isKilled() {
      return isKilled;
    },
    get steps() {
      return steps;
    },
    async step(act) {
      if (isKilled) throwKilled();
      steps += 1;
      const when = steps === kill?.at ? kill.when : undefined;
      if (when === 'before') throwKilled();
      const result = act();
      if (when === 'during') {
        sent.push(result.catch(() => {}));
        // Long enough for the request to leave.
        await soon();
        throwKilled();
      }
      // A failed step counts like a successful one.
      await result.catch(() => {});
      return isKilled || when === 'after' ? throwKilled() : result;
    },
    onKill(act) {
      if (isKilled) act();
      else atKill.push(act);
    },
    async finished() {
      await Promise.all(sent);
    },
  };
}

/** The pool of a simulated process. The kill breaks all its connections, also within a transaction. */
export function poolOf(simulated: SimulatedProcess, pool: pg.Pool): pg.Pool {
  const connect = async (): Promise<pg.PoolClient> => {
    const client = await pool.connect();
    const killableClient = clientOf(simulated, client);
    simulated.onKill(() => killableClient.release(true));
    return killableClient;
  };
  return new Proxy(pool, {
    get(target, name) {
      if (name === 'connect') return () => simulated.step(connect);
      if (name === 'query') return queryOf(simulated, target);
      return Reflect.get(target, name);
    },
  });
}

function clientOf(simulated: SimulatedProcess, client: pg.PoolClient): pg.PoolClient {
  let released = false;
  const release = (broken?: boolean): void => {
    if (released) return;
    released = true;
    client.release(broken || simulated.isKilled);
  };
  return new Proxy(client, {
    get(target, name) {
      if (name === 'query') return queryOf(simulated, target);
      if (name === 'release') return release;
      return Reflect.get(target, name);
    },
  });
}

function queryOf(simulated: SimulatedProcess, target: pg.Pool | pg.PoolClient) {
  return (...args: unknown[]) => {
    const [first] = args;
    if (first instanceof StatementGroup) return runGroup(simulated, target, first);
    return simulated.step(
      async () => Reflect.apply(target.query, target, args) as Promise<unknown>,
    );
  };
}

/** A group of statements is one step, which ends with the last response. */
async function runGroup(
  simulated: SimulatedProcess,
  target: pg.Pool | pg.PoolClient,
  group: StatementGroup,
): Promise<void> {
  const results: (() => void)[] = [];
  const listeners = group.members.map(({ query }) => query.callback);
  for (const [n, { query }] of group.members.entries()) {
    query.callback = (error, result) => results.push(() => listeners[n]?.(error, result));
  }
  try {
    await simulated.step(
      () =>
        new Promise<void>((resolve) => {
          group.callback = () => resolve();
          target.query(group);
        }),
    );
    for (const report of results) report();
  } catch (error) {
    for (const listener of listeners) listener?.(error as Error);
  }
}

export function commerceOf(
  simulated: SimulatedProcess,
  provider: CommerceProvider,
): CommerceProvider {
  return {
    settledAfterMs: provider.settledAfterMs,
    create: (request, signal) => simulated.step(() => provider.create(request, signal)),
    find: (request, signal) => simulated.step(() => provider.find(request, signal)),
    list: (request, signal) => provider.list(request, signal),
  };
}

export function destinationsOf(
  simulated: SimulatedProcess,
  destinations: Destinations,
): Destinations {
  return {
    getDestination: (request, options) =>
      simulated.step(async () => destinations.getDestination(request, options)),
  };
}
