import type { MessageInitShape } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Actor_Kind } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import type { PolicySchema } from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import {
  DispositionOutcome,
  Outcome,
  PolicyUse,
  type Return,
  ReturnState,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { line, type SubmissionPart } from '../../../test/kit/builders.ts';
import {
  firstLine,
  type ReturnsBench,
  startReturnsBench,
} from '../../../test/kit/services/returns-bench.ts';
import { actor } from '../../../test/kit/services/running-service.ts';

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench();
});
afterAll(() => bench.stop());

type Draft = MessageInitShape<typeof PolicySchema>;

/** A shop with this policy, as version 1. */
async function shopWith(policy: Draft): Promise<bigint> {
  const shopId = await bench.shop();
  await bench.client.updatePolicy({ shopId, actor, policy });
  return shopId;
}

const APPLY = { policy: PolicyUse.APPLY } satisfies SubmissionPart;
const customer = (email: string) => ({ customer: { email } });
const flagsOf = ({ state, flagReasons }: Return) =>
  state === ReturnState.REVIEW ? flagReasons : [];

describe('a submission that uses the policy', () => {
  test('stores the version that judged it, and shows it in its first entry', async () => {
    const shopId = await shopWith({ outcomes: [Outcome.REFUND] });
    const submitted = await bench.submit(shopId, APPLY);
    expect(submitted).toMatchObject({ policyVersion: 1n, state: ReturnState.OPEN });
    const [first] = await bench.timeline(submitted);
    expect(first).toMatchObject({ kind: 'return.submitted', facts: { policy_version: '1' } });
    await bench.client.updatePolicy({ shopId, actor, expectedVersion: 1n, policy: {} });
    expect((await bench.read(submitted)).policyVersion).toBe(1n);
    expect((await bench.submit(shopId, APPLY)).policyVersion).toBe(2n);
  });

  test('has version 0 in a shop without a policy, and none when it does not use it', async () => {
    const submitted = await bench.submit(await bench.shop(), APPLY);
    expect((await bench.timeline(submitted))[0]?.facts).toEqual({ policy_version: '0' });
    const unused = await bench.submit(await shopWith({ review: { valueAbove: '1' } }));
    expect(unused).toMatchObject({ state: ReturnState.OPEN });
    expect([submitted.policyVersion, unused.policyVersion]).toEqual([0n, undefined]);
    expect((await bench.timeline(unused))[0]?.facts).toEqual({});
  });

  test('says in its first entry that the policy was not allowed to refuse it', async () => {
    const shopId = await shopWith({ review: { valueAbove: '1' } });
    const submitted = await bench.submit(shopId, { policy: PolicyUse.OVERRIDE });
    expect(submitted.state).toBe(ReturnState.REVIEW);
    expect((await bench.timeline(submitted))[0]?.facts).toEqual({
      policy_version: '1',
      policy_override: 'true',
    });
  });

  test('goes into review for goods of more than the value, and for a reason', async () => {
    const shopId = await shopWith({ review: { valueAbove: '20.00', reasons: ['worn'] } });
    expect(flagsOf(await bench.submit(shopId, APPLY))).toEqual([]);
    const lines = [line({ price: { shop: '20.01' }, reason: 'worn' })];
    const submitted = await bench.submit(shopId, { ...APPLY, lines, flagReasons: ['look'] });
    expect(flagsOf(submitted)).toEqual([
      'The goods are worth more than 20.00 GBP',
      'A line item has the reason worn',
      'look',
    ]);
    expect((await bench.timeline(submitted))[1]).toMatchObject({ kind: 'return.flagged' });
  });

  test('counts the returns of an e-mail address in any case, the new one included', async () => {
    const shopId = await shopWith({ review: { returnsAbove: 2, returnsDays: 30 } });
    const old = {
      submittedAt: { seconds: BigInt(Math.trunc(Date.now() / 1000) - 31 * 86_400), nanos: 0 },
    };
    await bench.submit(shopId, { ...customer('ann@example.com'), ...old });
    const cancelled = await bench.submit(shopId, customer('ann@example.com'));
    await bench.client.cancelReturn({ shopId, actor, returnId: cancelled.id });
    for (const email of ['Ann@Example.com', 'ann@example.com ']) {
      expect(flagsOf(await bench.submit(shopId, { ...APPLY, ...customer(email) }))).toEqual([]);
    }
    expect(
      flagsOf(await bench.submit(shopId, { ...APPLY, ...customer('ANN@example.com') })),
    ).toEqual(['More than 2 returns of this e-mail address in 30 days']);
    expect(
      flagsOf(await bench.submit(shopId, { ...APPLY, ...customer('bob@example.com') })),
    ).toEqual([]);
    expect(flagsOf(await bench.submit(shopId, APPLY))).toEqual([]);
  });

  test('counts each of several concurrent submissions', async () => {
    const shopId = await shopWith({ review: { returnsAbove: 2, returnsDays: 1 } });
    const submitted = await Promise.all(
      Array.from({ length: 6 }, () =>
        bench.submit(shopId, { ...APPLY, ...customer('ann@example.com') }),
      ),
    );
    expect(submitted.filter((one) => flagsOf(one).length > 0)).toHaveLength(4);
  });

  test('goes into review for a fraud report of the same e-mail address', async () => {
    const shopId = await shopWith({ review: { fraudReport: true } });
    const reported = await bench.submit(shopId, customer('Ann@example.com'));
    expect(
      flagsOf(await bench.submit(shopId, { ...APPLY, ...customer('ann@example.com') })),
    ).toEqual([]);
    await bench.db.pool.query(
      'update returns set fraud_reported_at = now() where shop_id = $1 and id = $2',
      [shopId, reported.id],
    );
    expect(
      flagsOf(await bench.submit(shopId, { ...APPLY, ...customer('ann@example.com') })),
    ).toEqual(['This e-mail address has a fraud report']);
    expect(
      flagsOf(await bench.submit(shopId, { ...APPLY, ...customer('bob@example.com') })),
    ).toEqual([]);
  });
});

describe('goods that are disposed as missing', () => {
  const assess = (
    of: Return,
    assessmentId: bigint,
    outcome: DispositionOutcome,
    withoutReturns = false,
  ) =>
    bench.client.applyAssessments({
      shopId: of.shopId,
      actor,
      assessments: [{ assessmentId, lineItemId: firstLine(of), disposition: { outcome } }],
      withoutReturns,
    });

  test('put an open return into review, with the assessment', async () => {
    const shopId = await shopWith({ review: { missing: true } });
    const submitted = await bench.submit(shopId, APPLY);
    await assess(submitted, 1n, DispositionOutcome.DONATE);
    expect((await bench.read(submitted)).state).toBe(ReturnState.OPEN);
    const { returns } = await assess(submitted, 2n, DispositionOutcome.MISSING);
    expect(returns).toMatchObject([
      { state: ReturnState.REVIEW, flagReasons: ['Goods are missing'] },
    ]);
    expect(await bench.triggers(submitted)).toEqual(['return.updated', 'return.updated']);
    expect((await bench.timeline(submitted)).map(({ kind }) => kind)).toEqual([
      'return.submitted',
      'line.assessed',
      'line.assessed',
      'return.flagged',
    ]);
    // A repeat after a person ended the review changes nothing.
    await bench.client.unflagReturn({ shopId, actor, returnId: submitted.id });
    await assess(submitted, 2n, DispositionOutcome.MISSING);
    expect((await bench.read(submitted)).state).toBe(ReturnState.OPEN);
  });

  test('show the review in the event, also when the response has no returns', async () => {
    const shopId = await shopWith({ review: { missing: true } });
    const submitted = await bench.submit(shopId, APPLY);
    await assess(submitted, 1n, DispositionOutcome.MISSING, true);
    const [, event] = await bench.events(shopId);
    expect(event?.snapshot).toMatchObject({
      state: ReturnState.REVIEW,
      lineItems: [{ disposition: { outcome: DispositionOutcome.MISSING } }],
    });
  });

  test('do not without the condition, and not when the return is queued', async () => {
    const plain = await bench.submit(await shopWith({ review: { valueAbove: '500' } }), APPLY);
    await assess(plain, 1n, DispositionOutcome.MISSING);
    expect((await bench.read(plain)).state).toBe(ReturnState.OPEN);
    const queued = await bench.submit(await shopWith({ review: { missing: true } }), APPLY);
    await bench.queue(queued);
    await assess(queued, 1n, DispositionOutcome.MISSING);
    expect(await bench.read(queued)).toMatchObject({ state: ReturnState.OPEN, processing: true });
  });
});

describe('the submitter', () => {
  test.each([
    [{ by: { case: 'storefrontKey', value: true } }],
    [{ by: { case: 'app', value: 'client-1' } }],
  ] as const)('%j is stored with the return, and is in no event', async (submitter) => {
    const submitted = await bench.submit(await bench.shop(), { submitter });
    expect(await bench.read(submitted)).toMatchObject({ submitter });
    const [created] = await bench.events(submitted.shopId);
    expect(created).toMatchObject({ trigger: 'return.created' });
    expect(created?.snapshot?.submitter).toBeUndefined();
  });

  test('is absent without one', async () => {
    const submitted = await bench.submit(await bench.shop(), {
      submitter: { by: { case: 'storefrontKey', value: false } },
    });
    expect((await bench.read(submitted)).submitter).toBeUndefined();
  });
});

describe('a return in review', () => {
  test('is declined by a user, with the reason in the timeline', async () => {
    const shopId = await bench.shop();
    const submitted = await bench.submit(shopId, { flagReasons: ['look'] });
    const user = { kind: Actor_Kind.USER, id: 'u1', name: 'Ann' };
    const call = { shopId, actor: user, returnId: submitted.id, reason: 'The seal is broken' };
    await bench.client.cancelReturn(call);
    expect(await bench.read(submitted)).toMatchObject({ state: ReturnState.CANCELLED });
    expect((await bench.timeline(submitted)).at(-1)).toMatchObject({
      kind: 'return.cancelled',
      text: 'The seal is broken',
      author: 'Ann',
      facts: { declined: 'true' },
    });
  });
});
