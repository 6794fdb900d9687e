import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  AutomaticProcessing_Moment as Moment,
  type PolicySchema,
  UpdatePolicyRequestSchema,
} from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import {
  LabelStatus,
  PolicyUse,
  type Return,
  ReturnState,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  ApplyGradingsRequestSchema,
  FlagReturnRequestSchema,
  RecordArrivalRequestSchema,
  RecordLabelRequestSchema,
  UnflagReturnRequestSchema,
  UpdateLabelRequestSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { SubmissionPart } from '../../../test/kit/builders.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  actor,
  destinations,
  newLine,
  newReturn,
  newShop,
  onlyProvider,
  reload,
  requestProcessing,
  runDeps,
  runDue,
  timelineOf,
  triggersOf,
} from '../../../test/kit/services/processing.ts';
import { inspectionsOf, storeOf } from '../../../test/kit/services/return-stores.ts';
import { poolOf, simulateProcess, WHENS } from '../../../test/kit/simulated-process.ts';
import { createEmbeddedCommerce } from '../../commerce/embedded.ts';
import type { CommerceProvider } from '../../commerce/provider.ts';
import { applyGradings } from '../inspections/inspections.ts';
import { insertInstantRefund } from '../instant-refunds/instant-refunds-store.ts';
import { recordLabel, updateLabel } from '../labels/labels.ts';
import { recordArrival } from '../logistics/logistics.ts';
import { flagReturn, unflagReturn } from '../review/flag.ts';
import { automaticProcessing } from './automatic.ts';
import { updatePolicy } from './change-policy.ts';

let db: TestDatabase;
let commerce: CommerceProvider & ReturnType<typeof createEmbeddedCommerce>;
beforeAll(async () => {
  db = await createTestDatabase('returns');
  commerce = createEmbeddedCommerce(db.pool);
});
afterAll(() => db.drop());

type Draft = MessageInitShape<typeof PolicySchema>;

async function changePolicy(shopId: bigint, policy: Draft, expectedVersion = 0n): Promise<void> {
  const request = create(UpdatePolicyRequestSchema, { shopId, actor, policy, expectedVersion });
  await updatePolicy(db.pool, request);
}

/** A return that this policy judged. */
async function judged(policy: Draft, more: SubmissionPart = {}): Promise<Return> {
  const shopId = await newShop(db.pool);
  await changePolicy(shopId, policy);
  return newReturn(db.pool, shopId, { policy: PolicyUse.APPLY, ...more });
}

const at = (moment: Moment, upTo = '') => ({ process: { moment, upTo } });

/** What changes returns, with a pool that may be one of a killed process. */
function bench(pool = db.pool) {
  const automatic = automaticProcessing(onlyProvider(createEmbeddedCommerce(pool)));
  const store = storeOf(pool, automatic);
  return {
    label: ({ shopId, id: returnId }: Return, idempotencyKey: string) =>
      recordLabel(
        store,
        create(RecordLabelRequestSchema, {
          ...{ shopId, actor, returnId, idempotencyKey, carrier: 'DHL' },
        }),
      ),
    move: ({ shopId }: Return, labelId: bigint, status: LabelStatus, idempotencyKey = '') =>
      updateLabel(
        { pool, store },
        create(UpdateLabelRequestSchema, { shopId, actor, labelId, status, idempotencyKey }),
      ),
    arrive: ({ shopId, lineItems }: Return, lines = lineItems.length) =>
      recordArrival(
        { pool, store, destinations },
        create(RecordArrivalRequestSchema, {
          shopId,
          actor,
          lineItemIds: lineItems.slice(0, lines).map(({ lineItemId }) => lineItemId),
        }),
      ),
    grade: ({ shopId, lineItems }: Return, gradingId = 1n) =>
      applyGradings(
        inspectionsOf(pool, automatic),
        create(ApplyGradingsRequestSchema, {
          shopId,
          actor,
          gradings: lineItems.map(({ lineItemId }) => ({
            gradingId,
            lineItemId,
            condition: { subject: 'item', title: `Grade ${gradingId}`, grade: 'a' },
          })),
        }),
      ),
    flag: ({ shopId, id: returnId }: Return) =>
      flagReturn(
        store,
        create(FlagReturnRequestSchema, { shopId, actor, returnId, reasons: ['x'] }),
      ),
    unflag: ({ shopId, id: returnId }: Return) =>
      unflagReturn(store, create(UnflagReturnRequestSchema, { shopId, actor, returnId })),
  };
}

async function jobsOf({ shopId, id }: Return): Promise<number> {
  const { rows } = await db.pool.query<{ jobs: number }>(
    'select count(*)::int as jobs from processing_jobs where shop_id = $1 and return_id = $2',
    [shopId, id],
  );
  return rows[0]?.jobs ?? 0;
}

describe('a policy that processes returns', () => {
  test('does at the carrier update, and says which rule and version did it', async () => {
    const of = await judged(at(Moment.IN_TRANSIT, '20.00'));
    const label = await bench().label(of, 'label');
    expect(await jobsOf(of)).toBe(0);
    await bench().move(of, label.id, LabelStatus.IN_TRANSIT);
    expect(await reload(db.pool, of)).toMatchObject({ state: ReturnState.OPEN, processing: true });
    expect((await timelineOf(db.pool, of)).at(-1)).toMatchObject({
      kind: 'return.processing.queued',
      text: 'Processing was requested by the policy: the parcel is in transit',
      facts: { rule: 'process: in_transit', up_to: '20.00 GBP', policy_version: '1' },
    });
    await runDue(runDeps(db.pool, commerce));
    expect(await triggersOf(db.pool, of)).toContain('return.closed');
    const { rows } = await db.pool.query(
      'select actor_kind, actor_id from timeline where shop_id = $1 and kind = $2',
      [of.shopId, 'return.processing.queued'],
    );
    expect(rows).toEqual([{ actor_kind: 'system', actor_id: 'policy' }]);
  });

  test('does when all line items have arrived, by the version that judged the return', async () => {
    const of = await judged(at(Moment.ARRIVED), { lines: [newLine(), newLine()] });
    await changePolicy(of.shopId, {}, 1n);
    await bench().arrive(of, 1);
    expect(await jobsOf(of)).toBe(0);
    await bench().arrive(of, 2);
    expect(await jobsOf(of)).toBe(1);
    const newer = await newReturn(db.pool, of.shopId, { policy: PolicyUse.APPLY });
    await bench().arrive(newer);
    expect(await jobsOf(newer)).toBe(0);
  });

  test('does when all line items are graded, once', async () => {
    const of = await judged(at(Moment.GRADED));
    expect(await bench().grade(of)).toMatchObject([{ processing: true }]);
    await bench().grade(of, 2n);
    expect(await jobsOf(of)).toBe(1);
  });

  test('does nothing above the amount, by hand, or for a return that it did not judge', async () => {
    const above = await judged(at(Moment.ARRIVED, '19.99'));
    const byHand = await judged({ countries: ['GB'] });
    const unjudged = await judged(at(Moment.ARRIVED), { policy: PolicyUse.UNSPECIFIED });
    for (const one of [above, byHand, unjudged]) {
      await bench().arrive(one);
      expect(await jobsOf(one)).toBe(0);
    }
  });

  test('does nothing in review, and processes when the review ends after the moment', async () => {
    const of = await judged({ ...at(Moment.ARRIVED), review: { valueAbove: '1.00' } });
    expect(of.state).toBe(ReturnState.REVIEW);
    await bench().arrive(of);
    expect(await jobsOf(of)).toBe(0);
    await bench().unflag(of);
    expect(await jobsOf(of)).toBe(1);
  });

  test('leaves to people what a person has queued before', async () => {
    const of = await judged(at(Moment.ARRIVED));
    await commerce.failNext({ returnId: of.id, kind: 'final', times: 1 });
    await requestProcessing(db.pool, of);
    await runDue(runDeps(db.pool, commerce));
    expect(await reload(db.pool, of)).toMatchObject({ state: ReturnState.OPEN, processing: false });
    await bench().arrive(of);
    expect(await jobsOf(of)).toBe(1);
  });

  test('does nothing while an instant refund is open, or without a commerce provider', async () => {
    const paid = await judged(at(Moment.ARRIVED));
    const money = { amount: '8.00', currency: 'GBP', chargeReference: 'ch_1' };
    await insertInstantRefund(db.pool, { shopId: paid.shopId, returnId: paid.id, ...money });
    await bench().arrive(paid);
    expect(await jobsOf(paid)).toBe(0);

    const of = await judged(at(Moment.ARRIVED));
    const none = async () => undefined;
    const providers = { of: none, connected: none, forLookUps: none };
    const store = storeOf(db.pool, automaticProcessing(providers));
    const lineItemIds = of.lineItems.map(({ lineItemId }) => lineItemId);
    const request = create(RecordArrivalRequestSchema, { shopId: of.shopId, actor, lineItemIds });
    await recordArrival({ pool: db.pool, store, destinations }, request);
    expect(await jobsOf(of)).toBe(0);
  });
});

describe('under fire', () => {
  test('a carrier update that is killed anywhere and repeated queues one job', async () => {
    const of = await judged(at(Moment.DELIVERED));
    const run = async (kill: Parameters<typeof simulateProcess>[0]) => {
      const one = await newReturn(db.pool, of.shopId, { policy: PolicyUse.APPLY });
      const label = await bench().label(one, `label ${one.id}`);
      const simulated = simulateProcess(kill);
      const move = (pool = db.pool) =>
        bench(pool).move(one, label.id, LabelStatus.DELIVERED, `move ${one.id}`);
      await (kill
        ? move(poolOf(simulated, db.pool)).catch(() => {})
        : move(poolOf(simulated, db.pool)));
      await simulated.finished();
      await move();
      expect([kill, await jobsOf(one)]).toEqual([kill, 1]);
      expect((await reload(db.pool, one)).labels[0]?.status).toBe(LabelStatus.DELIVERED);
      return { one, steps: simulated.steps };
    };
    const { steps } = await run(undefined);
    expect(steps).toBeGreaterThan(5);
    const returns: Return[] = [];
    for (let step = 1; step <= steps; step += 1) {
      for (const when of WHENS) returns.push((await run({ at: step, when })).one);
    }
    await runDue(runDeps(db.pool, commerce));
    for (const one of returns) {
      expect((await commerce.ordersOf(one.id)).refunds).toMatchObject([{ calls: 1 }]);
      expect(
        (await triggersOf(db.pool, one)).filter((name) => name === 'return.closed'),
      ).toHaveLength(1);
    }
  });

  test('concurrent moments, and people, queue one job', async () => {
    for (let round = 0; round < 5; round += 1) {
      const of = await judged(at(Moment.IN_TRANSIT));
      const label = await bench().label(of, 'label');
      await Promise.all([
        bench().move(of, label.id, LabelStatus.IN_TRANSIT),
        bench().move(of, label.id, LabelStatus.DELIVERED),
        bench().arrive(of),
        bench().grade(of),
        requestProcessing(db.pool, of),
      ]);
      expect(await jobsOf(of)).toBe(1);
    }
  });
});
