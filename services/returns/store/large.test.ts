import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type pg from 'pg';
import { ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  FlagReturnRequestSchema,
  UnflagReturnRequestSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { type ReturnsBench, startReturnsBench } from '../../../test/kit/services/returns-bench.ts';
import { actor } from '../../../test/kit/services/running-service.ts';
import { until } from '../../../test/kit/until.ts';
import { forCaller } from '../../platform/caller.ts';
import { createPool } from '../../platform/postgres.ts';
import { flagReturn, unflagReturn } from '../flag.ts';
import { createReturnStore } from './create-return-store.ts';
import { createLargeWork } from './large.ts';
import type { ReturnStore } from './return-store.ts';
import { makeLarge } from './testing/large-returns.ts';

let bench: ReturnsBench;
/** A pool with one connection: a call that holds it and waits makes all others wait. */
let pool: pg.Pool;
let store: ReturnStore;
const large = createLargeWork();
beforeAll(async () => {
  bench = await startReturnsBench();
  pool = createPool(bench.db.url, { max: 1 });
  store = createReturnStore({ pool, large });
});
afterAll(async () => {
  await pool.end();
  await bench.stop();
});

async function newLarge() {
  const made = await bench.submit(await bench.shop());
  await makeLarge(bench.db.pool, made);
  return {
    shopId: made.shopId,
    id: made.id,
    by: { shopId: made.shopId, actor, returnId: made.id },
  };
}

/** Takes all permits until it is released. */
async function takeAll(): Promise<() => Promise<void>> {
  const held = Promise.withResolvers<void>();
  let taken = 0;
  const work = (): Promise<void> => {
    taken += 1;
    return held.promise;
  };
  const all = [1n, 2n].map((shopId) => large.within(shopId, work));
  await until(() => taken === all.length);
  return async () => {
    held.resolve();
    await Promise.all(all);
  };
}

type By = Awaited<ReturnType<typeof newLarge>>['by'];
const flag = (by: By) =>
  flagReturn(store, create(FlagReturnRequestSchema, { ...by, reasons: ['Odd'] }));
const unflag = (by: By) => unflagReturn(store, create(UnflagReturnRequestSchema, by));

describe('a change of a large return', () => {
  test('waits for its permit without a connection, and then runs once', async () => {
    const made = await newLarge();
    const letGo = await takeAll();
    let isDone = false;
    const flagged = flag(made.by).finally(() => {
      isDone = true;
    });
    // The first attempt has ended when other statements get the connection, several times.
    for (let nth = 0; nth < 20; nth += 1) await pool.query('select pg_sleep(0.01)');
    expect(isDone).toBe(false);
    expect(pool.waitingCount).toBe(0);
    await letGo();
    expect((await flagged).state).toBe(ReturnState.REVIEW);
    expect(await bench.triggers(made)).toEqual(['return.updated']);
  });

  test('of a call that has a permit needs no other', async () => {
    const made = await newLarge();
    const call = new AbortController();
    await forCaller(call.signal, async () => {
      await flag(made.by);
      const open = await unflag(made.by);
      expect(open.state).toBe(ReturnState.OPEN);
    });
    // Until the call has ended, its shop gets no second permit.
    const next = large.within(made.shopId, async () => 'next');
    const first = await Promise.race([next, pool.query('select 1').then(() => 'still waiting')]);
    expect(first).toBe('still waiting');
    call.abort();
    expect(await next).toBe('next');
  });
});
