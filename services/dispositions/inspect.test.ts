import { Code } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type pg from 'pg';
import { ReturnsService } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { countStatements } from '../../test/kit/postgres/counted-statements.ts';
import {
  type DispositionsBench,
  FINDING,
  notesIn,
  refusedAsTooLarge,
  rejectLarge,
  startDispositionsBench,
  tooLarge,
} from '../../test/kit/services/dispositions-bench.ts';
import { actor, identity, refusal } from '../../test/kit/services/running-service.ts';
import { until } from '../../test/kit/until.ts';
import { createServiceClient, type ServiceClient } from '../platform/grpc/client.ts';
import { createPool } from '../platform/postgres.ts';
import { deleteInspections } from './delete-inspections.ts';
import { inspect } from './inspect.ts';
import { type Batch, record } from './record.ts';

let bench: DispositionsBench;
let returns: ServiceClient<typeof ReturnsService>;
/** A process of its own, whose reads of pending inspections are counted. */
let other: { readonly pool: pg.Pool; readonly reads: () => number };
beforeAll(async () => {
  bench = await startDispositionsBench();
  returns = createServiceClient(ReturnsService, { target: bench.returns.target, identity });
  const pool = createPool(bench.db.url);
  const { statements } = countStatements(pool);
  const reads = () =>
    statements.filter((text) => text.includes('distinct on (line_item_id)')).length;
  other = { pool, reads };
});
afterAll(async () => {
  returns.close();
  await other.pool.end();
  await bench.stop();
});
beforeEach(() => {
  bench.returns.beforeAssessments = rejectLarge;
});
afterEach(() => {
  bench.returns.failWith = undefined;
});

/** A shop with two line items. */
function twoLines() {
  const { shopId, lines } = bench.shopWithLines(2);
  const [first = 0n, second = 0n] = lines;
  return { shopId, lines, first, second };
}

/** A call about line items with these notes, for the functions of the service. */
const batchOf = (shopId: bigint, notes: readonly (readonly [bigint, string])[]): Batch => ({
  shopId,
  actor,
  kind: 'assessment',
  findings: notes.map(([lineItemId, note]) => ({ ...FINDING, lineItemId, note })),
});

const inOther = (batch: Batch) => inspect({ pool: other.pool, returns: returns.client }, batch);

/** Starts a call in the other process, and resolves when that has read twice what is pending. */
async function startInOther(batch: Batch) {
  const before = other.reads();
  const result = inOther(batch);
  await Promise.race([result, until(() => other.reads() >= before + 2)]);
  return { result };
}

/** Leaves an assessment pending, because returns is unavailable. */
async function leavePending(shopId: bigint, items: Parameters<DispositionsBench['assess']>[1]) {
  bench.returns.failWith = Code.Unavailable;
  expect(await refusal(bench.assess(shopId, items))).toMatchObject({ code: Code.Unavailable });
  bench.returns.failWith = undefined;
}

describe('returns gets all findings of a call together', () => {
  test('also when an earlier assessment of a line is pending', async () => {
    const { shopId, first, second } = twoLines();
    await leavePending(shopId, [{ lineItemId: first, note: 'earlier' }]);
    await bench.assess(shopId, [
      { lineItemId: first, note: 'one' },
      { lineItemId: second, note: 'two' },
    ]);
    expect(bench.notesHandedTo(shopId)).toEqual([['earlier'], ['one', 'two']]);
  });

  test('so that none stays when one does not fit and an earlier one is pending', async () => {
    const { shopId, lines, first, second } = twoLines();
    await leavePending(shopId, [{ lineItemId: first, note: 'earlier' }]);
    const call = bench.assess(shopId, [
      { lineItemId: first, note: 'large' },
      { lineItemId: second, note: 'fits' },
    ]);
    expect(await refusal(call)).toMatchObject(refusedAsTooLarge);
    expect(bench.notesHandedTo(shopId)).toEqual([['earlier']]);
    expect(await bench.notesOf(shopId, lines)).toEqual(['earlier']);
    expect(await bench.pendingOf(shopId)).toBe(0);
  });

  test.each([
    ['', ''],
    [' with a key', 'k-1'],
  ])('when an unavailable call%s is repeated, and none stays', async (_, idempotencyKey) => {
    const { shopId, lines, first, second } = twoLines();
    const items = [
      { lineItemId: first, note: 'fits' },
      { lineItemId: second, note: 'large' },
    ];
    const call = () => bench.client.assess({ shopId, actor, items, idempotencyKey });
    bench.returns.failWith = Code.Unavailable;
    expect(await refusal(call())).toMatchObject({ code: Code.Unavailable });
    bench.returns.failWith = undefined;
    for (let times = 0; times < 2; times += 1) {
      expect(await refusal(call())).toMatchObject(refusedAsTooLarge);
      expect(bench.notesHandedTo(shopId)).toEqual([]);
      expect(await bench.notesOf(shopId, lines)).toEqual([]);
      expect(await bench.pendingOf(shopId)).toBe(0);
    }
  });

  test('except equal ones of an earlier call, which stay', async () => {
    const { shopId, lines, first, second } = twoLines();
    await record(bench.db.pool, batchOf(shopId, [[first, 'fits']]));
    const call = inOther(
      batchOf(shopId, [
        [first, 'fits'],
        [second, 'large'],
      ]),
    );
    expect(await refusal(call)).toMatchObject(refusedAsTooLarge);
    expect(bench.notesHandedTo(shopId)).toEqual([['fits']]);
    expect(await bench.notesOf(shopId, lines)).toEqual(['fits']);
    expect(await bench.pendingOf(shopId)).toBe(0);
  });
});

describe('a call during another one', () => {
  test('does not hand over a part of it', async () => {
    const { shopId, lines, first, second } = twoLines();
    const started = Promise.withResolvers<void>();
    const held = Promise.withResolvers<void>();
    bench.returns.beforeAssessments = async (request) => {
      if (!notesIn(request).includes('large')) return;
      started.resolve();
      await held.promise;
      throw tooLarge;
    };
    const running = refusal(
      bench.assess(shopId, [
        { lineItemId: first, note: 'fits' },
        { lineItemId: second, note: 'large' },
      ]),
    );
    await started.promise;
    const later = await startInOther(batchOf(shopId, [[first, 'later']]));
    held.resolve();
    expect(await running).toMatchObject(refusedAsTooLarge);
    expect((await later.result).created).toMatchObject([{ note: 'later' }]);
    expect(bench.notesHandedTo(shopId)).toEqual([['later']]);
    expect(await bench.notesOf(shopId, lines)).toEqual(['later']);
    expect(await bench.pendingOf(shopId)).toBe(0);
  });

  test('records an equal finding again when the other call deletes it', async () => {
    const { shopId, lines, first, second } = twoLines();
    const running = batchOf(shopId, [
      [first, 'same'],
      [second, 'large'],
    ]);
    const { created } = await record(bench.db.pool, running);
    const repeated = await startInOther(batchOf(shopId, [[first, 'same']]));
    await deleteInspections(bench.db.pool, running, created);
    await repeated.result;
    expect(bench.notesHandedTo(shopId)).toEqual([['same']]);
    expect(await bench.notesOf(shopId, lines)).toEqual(['same']);
    expect(await bench.pendingOf(shopId)).toBe(0);
  });
});
