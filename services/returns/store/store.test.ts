import { create, toBinary } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type pg from 'pg';
import {
  DispositionOutcome,
  type Return,
  ReturnSchema,
  ReturnState,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  ApplyAssessmentsResponseSchema,
  FlagReturnRequestSchema,
  UnflagReturnRequestSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { line } from '../../../test/kit/builders.ts';
import { copiesOf } from '../../../test/kit/postgres/stored-copies.ts';
import { type ReturnsBench, startReturnsBench } from '../../../test/kit/services/returns-bench.ts';
import { actor } from '../../../test/kit/services/running-service.ts';
import { until } from '../../../test/kit/until.ts';
import { createPool } from '../../platform/postgres/postgres.ts';
import { forCaller } from '../../platform/rpc/caller.ts';
import { MAX_MESSAGE_BYTES } from '../../platform/rpc/limits.ts';
import { flagReturn, unflagReturn } from '../review/flag.ts';
import { fittingReturns } from './fitting.ts';
import { createLargeWork } from './large.ts';
import type { ReturnStore } from './return-store.ts';
import { createReturnStore } from './return-store.ts';
import { makeLarge } from './testing/large-returns.ts';

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench();
});
afterAll(() => bench.stop());

const customer = { email: 'ann@example.com', firstName: 'Ann' };
let lastId = 0n;

const assess = (of: Return, note: string) =>
  bench.client.applyAssessments({
    shopId: of.shopId,
    actor,
    assessments: of.lineItems.map(({ lineItemId }, n) => ({
      lineItemId,
      assessmentId: ++lastId,
      disposition: { outcome: DispositionOutcome.DONATE, ...(n === 0 && { note }) },
    })),
  });
const grade = (of: Return, description: string) =>
  bench.client.applyGradings({
    shopId: of.shopId,
    actor,
    gradings: of.lineItems.map(({ lineItemId }) => ({
      lineItemId,
      gradingId: ++lastId,
      condition: { subject: 'item', title: 'Grade A', grade: 'a', description },
    })),
  });
const snapshot = async (of: Return, revision: bigint) =>
  (await bench.client.getSnapshot({ shopId: of.shopId, actor, returnId: of.id, revision })).return;
/** A unique text that is longer than what an event copies. */
const longText = (mark: string) => `${mark}${'é'.repeat(20_000)}`;

describe('a long text', () => {
  test('is stored once, and read with each revision that had it', async () => {
    const of = await bench.submit(await bench.shop(), { lines: [line(), line()], customer });
    const [assessed] = (await assess(of, longText('one note'))).returns;
    const [graded] = (await grade(of, longText('described'))).returns;
    expect(await copiesOf(bench.db.pool, 'one note')).toEqual(['line_dispositions']);
    const [replaced] = (await assess(of, longText('another note'))).returns;
    await grade(of, 'short');
    expect(await copiesOf(bench.db.pool, 'one note')).toEqual(['timeline']);
    expect(await copiesOf(bench.db.pool, 'another note')).toEqual(['line_dispositions']);

    expect(await snapshot(of, 2n)).toEqual(assessed);
    expect(await snapshot(of, 3n)).toEqual(graded);
    expect(await snapshot(of, 4n)).toEqual(replaced);
    const events = await bench.events(of.shopId);
    expect(
      events.filter(({ snapshotOmitted }) => snapshotOmitted).map((one) => one.revision),
    ).toEqual([...[2n, 3n, 4n, 5n]]);
  });

  test('is still read after the shopper was removed from the snapshot', async () => {
    const of = await bench.submit(await bench.shop(), { customer });
    await assess(of, longText('kept'));
    await assess(of, 'short');
    const { shopId } = of;
    await bench.client.redactCustomer({ shopId, actor, email: customer.email });
    const read = await snapshot(of, 2n);
    expect(read?.customer).toBeUndefined();
    expect(read?.lineItems[0]?.disposition?.note).toBe(longText('kept'));
  });
});

test('a short text stays in the event', async () => {
  const of = await bench.submit(await bench.shop());
  const [after] = (await assess(of, 'n'.repeat(16_000))).returns;
  const event = (await bench.events(of.shopId)).find(({ revision }) => revision === 2n);
  expect(event?.snapshot).toEqual(after);
});

describe('a change of a large return', () => {
  /** A pool with one connection: a call that holds it and waits makes all others wait. */
  let pool: pg.Pool;
  let store: ReturnStore;
  const large = createLargeWork();
  beforeAll(async () => {
    pool = createPool(bench.db.url, { max: 1 });
    store = createReturnStore({ pool, large });
  });
  afterAll(() => pool.end());

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

const sized = (id: bigint, bytes: number) =>
  create(ReturnSchema, { id, packageReference: 'x'.repeat(bytes) });

test('omits returns that do not fit into one response', () => {
  const returns = fittingReturns([
    sized(1n, 20 * 2 ** 20),
    sized(2n, 14 * 2 ** 20),
    sized(3n, 12 * 2 ** 20),
    sized(4n, 2 ** 20),
  ]);
  expect(returns.map(({ id }) => id)).toEqual([1n, 3n]);
  const answer = toBinary(
    ApplyAssessmentsResponseSchema,
    create(ApplyAssessmentsResponseSchema, { returns }),
  );
  expect(answer.length).toBeLessThanOrEqual(MAX_MESSAGE_BYTES);
});

test('keeps all returns that fit', () => {
  const returns = [sized(1n, 1_000), sized(2n, 1_000)];
  expect(fittingReturns(returns)).toEqual(returns);
});
