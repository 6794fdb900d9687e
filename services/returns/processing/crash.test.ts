import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type pg from 'pg';
import { type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { createEmbeddedCommerce, type EmbeddedCommerce } from '../commerce/embedded.ts';
import type { CommerceProvider } from '../commerce/provider.ts';
import { runJob } from './run.ts';
import {
  ask,
  claimOne,
  endLeases,
  exchangeWith,
  newReturn,
  newShop,
  reload,
  runDeps,
  runDue,
  triggersOf,
} from './testing.ts';

let db: TestDatabase;
let commerce: EmbeddedCommerce;
beforeAll(async () => {
  db = await createTestDatabase('returns');
  commerce = createEmbeddedCommerce(db.pool);
});
afterAll(() => db.drop());

const never = new AbortController().signal;

/** Kills the process at its n-th step outwards: before the step takes effect, or before its answer is heard. */
interface Death {
  readonly at: number;
  readonly when: 'before' | 'after';
}

/** Everything a process says to the outside world goes through here; once dead, nothing does. */
function mortal(death: Death) {
  let steps = 0;
  let dead = false;
  const die = (): never => {
    dead = true;
    throw new Error('killed');
  };
  return {
    get isDead() {
      return dead;
    },
    async step<T>(act: () => Promise<T>): Promise<T> {
      if (dead) die();
      steps += 1;
      const last = steps === death.at;
      if (last && death.when === 'before') die();
      const answer = await act();
      return last ? die() : answer;
    },
  };
}

type Life = ReturnType<typeof mortal>;

/** The pool of a mortal process; its connections break when it dies, and PostgreSQL rolls back. */
function poolOf(life: Life, pool: pg.Pool): pg.Pool {
  return new Proxy(pool, {
    get(target, name) {
      if (name === 'connect') return async () => clientOf(life, await target.connect());
      if (name === 'query') return throughLife(life, target);
      return Reflect.get(target, name);
    },
  });
}

function clientOf(life: Life, client: pg.PoolClient): pg.PoolClient {
  return new Proxy(client, {
    get(target, name) {
      if (name === 'query') return throughLife(life, target);
      if (name === 'release') return (broken?: boolean) => target.release(broken || life.isDead);
      return Reflect.get(target, name);
    },
  });
}

function throughLife(life: Life, target: pg.Pool | pg.PoolClient) {
  return (...args: unknown[]) =>
    life.step(async () => Reflect.apply(target.query, target, args) as Promise<unknown>);
}

function commerceOf(life: Life): CommerceProvider {
  return {
    createExchangeOrder: (request, signal) =>
      life.step(() => commerce.createExchangeOrder(request, signal)),
    issueGiftCard: (request, signal) => life.step(() => commerce.issueGiftCard(request, signal)),
    createRefund: (request, signal) => life.step(() => commerce.createRefund(request, signal)),
  };
}

/** Runs the return's job in a process that dies as told. Whether it lived through the whole run. */
async function survives(death: Death): Promise<boolean> {
  const life = mortal(death);
  const job = await claimOne(db.pool);
  await runJob(runDeps(poolOf(life, db.pool), commerceOf(life)), job, never).catch(() => {});
  return !life.isDead;
}

async function expectDoneOnce(submitted: Return, kinds: 'gift card' | 'refund') {
  const closed = await reload(db.pool, submitted);
  expect(closed).toMatchObject({ state: ReturnState.CLOSED, processing: false, revision: 2n });
  const { orders, giftCards, refunds } = await commerce.ordersOf(submitted.id);
  expect(orders).toHaveLength(1);
  expect(giftCards).toHaveLength(kinds === 'gift card' ? 1 : 0);
  expect(refunds).toHaveLength(kinds === 'refund' ? 1 : 0);
  expect(closed.exchangeOrders.map((order) => order.id)).toEqual([orders[0]?.id]);
  expect(closed.giftCardOrder?.id).toBe(giftCards[0]?.id);
  expect(closed.refunds).toHaveLength(refunds.length);
  expect(await triggersOf(db.pool, submitted)).toEqual(['return.closed']);
}

const cases = [
  { when: 'before', kinds: 'gift card' },
  { when: 'after', kinds: 'refund' },
] as const;

describe('a worker that is killed', () => {
  test.each(cases)(
    'at any step, $when it took effect, neither loses nor doubles an order or $kinds',
    async ({ when, kinds }) => {
      const shopId = await newShop(db.pool);
      let at = 0;
      for (let lived = false; !lived; ) {
        at += 1;
        const submitted = await newReturn(db.pool, shopId, exchangeWith(kinds));
        await ask(db.pool, submitted);
        lived = await survives({ at, when });
        await endLeases(db.pool);
        await runDue(runDeps(db.pool, commerce));
        await expectDoneOnce(submitted, kinds);
      }
      // The run was cut at every one of its steps: transactions, calls and answers.
      expect(at).toBeGreaterThan(25);
    },
    60_000,
  );

  test('again and again is still survived', async () => {
    const submitted = await newReturn(db.pool, await newShop(db.pool), exchangeWith('refund'));
    await ask(db.pool, submitted);
    for (const at of [3, 9, 10, 13, 15, 9, 10, 12]) {
      await survives({ at, when: 'after' });
      await endLeases(db.pool);
    }
    await runDue(runDeps(db.pool, commerce));
    await expectDoneOnce(submitted, 'refund');
  });

  test('leaves its job to one of many others', async () => {
    const shopId = await newShop(db.pool);
    const returns = await Promise.all(
      Array.from({ length: 12 }, () => newReturn(db.pool, shopId, exchangeWith('refund'))),
    );
    for (const submitted of returns) await ask(db.pool, submitted);
    await Promise.all(Array.from({ length: 4 }, () => runDue(runDeps(db.pool, commerce))));
    for (const submitted of returns) {
      await expectDoneOnce(submitted, 'refund');
      expect((await commerce.ordersOf(submitted.id)).refunds).toMatchObject([{ calls: 1 }]);
    }
  });
});
