import { setImmediate as soon } from 'node:timers/promises';
import type pg from 'pg';
import { StatementGroup } from '../../../services/platform/statement-group.ts';
import type { CommerceProvider } from '../../../services/returns/commerce/provider.ts';
import type { Destinations } from '../../../services/returns/destinations.ts';

/**
 * When a process dies at an outward step: before anything was sent, with the request in flight, or after it is done but
 * before the answer arrives.
 */
export type When = 'before' | 'during' | 'after';
export const WHENS = ['before', 'during', 'after'] as const satisfies readonly When[];

export interface Death {
  /** Counted from 1, over connections, statements, calls at the provider and at other services. */
  readonly at: number;
  readonly when: When;
}

/** A process that may die. Everything that it sends is a step, and once dead it sends nothing. */
export interface Life {
  readonly isDead: boolean;
  readonly steps: number;
  step<T>(act: () => Promise<T>): Promise<T>;
  /** Runs at the death; at once if that was before. */
  onDeath(act: () => void): void;
  /** Resolves when the requests that a dead process had sent have ended. */
  finished(): Promise<void>;
}

class Killed extends Error {
  override readonly name = 'Killed';
}

export function mortal(death: Death | undefined): Life {
  let steps = 0;
  let dead = false;
  const sent: Promise<unknown>[] = [];
  const atDeath: (() => void)[] = [];
  const die = (): never => {
    dead = true;
    for (const act of atDeath.splice(0)) act();
    throw new Killed('this process is dead');
  };
  return {
    get isDead() {
      return dead;
    },
    get steps() {
      return steps;
    },
    async step(act) {
      if (dead) die();
      steps += 1;
      const when = steps === death?.at ? death.when : undefined;
      if (when === 'before') die();
      const answer = act();
      if (when === 'during') {
        sent.push(answer.catch(() => {}));
        // Long enough for the request to leave.
        await soon();
        die();
      }
      // An error is an answer too.
      await answer.catch(() => {});
      return dead || when === 'after' ? die() : answer;
    },
    onDeath(act) {
      if (dead) act();
      else atDeath.push(act);
    },
    async finished() {
      await Promise.all(sent);
    },
  };
}

/** The pool of a mortal process. Its connections break when it dies, in whatever state they are. */
export function poolOf(life: Life, pool: pg.Pool): pg.Pool {
  const connect = async (): Promise<pg.PoolClient> => {
    const client = await pool.connect();
    const mortalClient = clientOf(life, client);
    life.onDeath(() => mortalClient.release(true));
    return mortalClient;
  };
  return new Proxy(pool, {
    get(target, name) {
      if (name === 'connect') return () => life.step(connect);
      if (name === 'query') return queryOf(life, target);
      return Reflect.get(target, name);
    },
  });
}

function clientOf(life: Life, client: pg.PoolClient): pg.PoolClient {
  let released = false;
  const release = (broken?: boolean): void => {
    if (released) return;
    released = true;
    client.release(broken || life.isDead);
  };
  return new Proxy(client, {
    get(target, name) {
      if (name === 'query') return queryOf(life, target);
      if (name === 'release') return release;
      return Reflect.get(target, name);
    },
  });
}

function queryOf(life: Life, target: pg.Pool | pg.PoolClient) {
  return (...args: unknown[]) => {
    const [first] = args;
    if (first instanceof StatementGroup) return runGroup(life, target, first);
    return life.step(async () => Reflect.apply(target.query, target, args) as Promise<unknown>);
  };
}

/** Statements of a group are one step, which ends with their answers. */
async function runGroup(
  life: Life,
  target: pg.Pool | pg.PoolClient,
  group: StatementGroup,
): Promise<void> {
  const answers: (() => void)[] = [];
  const listeners = group.members.map(({ query }) => query.callback);
  for (const [n, { query }] of group.members.entries()) {
    query.callback = (error, result) => answers.push(() => listeners[n]?.(error, result));
  }
  try {
    await life.step(
      () =>
        new Promise<void>((resolve) => {
          group.callback = () => resolve();
          target.query(group);
        }),
    );
    for (const answer of answers) answer();
  } catch (error) {
    for (const listener of listeners) listener?.(error as Error);
  }
}

export function commerceOf(life: Life, provider: CommerceProvider): CommerceProvider {
  return {
    createExchangeOrder: (request, signal) =>
      life.step(() => provider.createExchangeOrder(request, signal)),
    issueGiftCard: (request, signal) => life.step(() => provider.issueGiftCard(request, signal)),
    createRefund: (request, signal) => life.step(() => provider.createRefund(request, signal)),
  };
}

export function destinationsOf(life: Life, destinations: Destinations): Destinations {
  return {
    getDestination: (request, options) =>
      life.step(async () => destinations.getDestination(request, options)),
  };
}
