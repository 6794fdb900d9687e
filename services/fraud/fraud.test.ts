import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { FraudService } from '../../proto/gen/rms/fraud/v1/fraud_pb.ts';
import { type FakeReturns, startFakeReturns } from '../../test/kit/services/fake-returns.ts';
import {
  actor,
  newShop,
  type RunningTestService,
  refusal,
  runService,
} from '../../test/kit/services/running-service.ts';
import { FRAUD_CATEGORIES } from '../contract/vocabulary.ts';
import { startFraud } from './service.ts';

let returns: FakeReturns;
let service: RunningTestService<typeof FraudService>;
beforeAll(async () => {
  returns = await startFakeReturns();
  service = await runService({
    schema: 'fraud',
    service: FraudService,
    start: (options) => startFraud({ ...options, RETURNS_TARGET: returns.target }),
  });
});
afterAll(async () => {
  await service.stop();
  await returns.stop();
});

let lastReturn = 100n;

/** A shop with one return. */
function shopWithReturn() {
  const shopId = newShop();
  const returnId = ++lastReturn;
  returns.addReturn(shopId, returnId);
  return { shopId, returnId };
}

async function report(of: { shopId: bigint; returnId: bigint }, more: object = {}) {
  const { report: made } = await service.client.createReport({ ...of, actor, ...more });
  if (!made) throw new Error('no report in the response');
  return made;
}

const invalid = (field: string) => ({ code: Code.InvalidArgument, reason: 'INVALID_FIELD', field });
const NO_RETURN = { code: Code.NotFound, reason: 'RETURN_NOT_FOUND', field: undefined };
const NO_REPORT = { code: Code.NotFound, reason: 'FRAUD_REPORT_NOT_FOUND', field: undefined };
const EXISTS = { code: Code.AlreadyExists, reason: 'FRAUD_REPORT_EXISTS', field: undefined };

describe('create fraud report', () => {
  test.each(FRAUD_CATEGORIES)('records a report of category %s', async (category) => {
    const of = shopWithReturn();
    const made = await report(of, { category, comment: ' It was empty. ' });
    expect(made).toMatchObject({
      returnId: of.returnId,
      category,
      comment: ' It was empty. ',
      reportedBy: actor,
    });
    expect(made.id).toBeGreaterThan(0n);
    const read = await service.client.getReport({ ...of, actor });
    expect(read.report).toEqual(made);
  });

  test('accepts a report without category and comment', async () => {
    const made = await report(shopWithReturn());
    expect([made.category, made.comment]).toEqual([undefined, undefined]);
  });

  test.each(['', ' ', '\n\t\u00a0'])('treats a blank comment as absent: %j', async (comment) => {
    expect((await report(shopWithReturn(), { comment })).comment).toBeUndefined();
    const other = report(shopWithReturn(), { category: 'other', comment });
    expect(await refusal(other)).toEqual(invalid('comment'));
  });

  test('counts the comment in Unicode characters, 512 at most', async () => {
    const comment = '\u{1f4e6}'.repeat(512);
    expect((await report(shopWithReturn(), { comment })).comment).toBe(comment);
    const longer = report(shopWithReturn(), { comment: `${comment}!` });
    expect(await refusal(longer)).toEqual(invalid('comment'));
  });

  test.each([
    ['an unknown category', { category: 'rudeness' }, 'category'],
    ['a category in other letters', { category: 'Other', comment: 'x' }, 'category'],
    ['an empty category', { category: '' }, 'category'],
    ['other without a comment', { category: 'other' }, 'comment'],
    ['NUL in the comment', { comment: 'a\0b' }, 'comment'],
    ['no return', { returnId: 0n }, 'return_id'],
  ])('rejects %s', async (_, change, field) => {
    const of = shopWithReturn();
    expect(await refusal(report(of, change))).toEqual(invalid(field));
    expect(await service.events(of.shopId)).toEqual([]);
  });

  test('rejects a second report of the same return', async () => {
    const of = shopWithReturn();
    await report(of);
    expect(await refusal(report(of))).toEqual(EXISTS);
    expect(await service.events(of.shopId)).toHaveLength(1);
  });

  test('returns the first report for the same key', async () => {
    const of = shopWithReturn();
    const keyed = { idempotencyKey: 'k-1', comment: 'Empty' };
    const made = await report(of, keyed);
    expect(await report(of, keyed)).toEqual(made);
    expect(await refusal(report(of, { ...keyed, comment: 'Full' }))).toMatchObject({
      reason: 'IDEMPOTENCY_CONFLICT',
    });
    expect(await refusal(report(of))).toEqual(EXISTS);
  });

  test('stores one of several concurrent reports', async () => {
    const of = shopWithReturn();
    const calls = await Promise.allSettled(Array.from({ length: 6 }, () => refusal(report(of))));
    const refused = calls.filter((call) => call.status === 'fulfilled');
    expect(refused.map(({ value }) => value)).toEqual(Array.from({ length: 5 }, () => EXISTS));
    expect(await service.events(of.shopId)).toHaveLength(1);
  });

  test('checks the request, then the return, then the report', async () => {
    const absent = { shopId: newShop(), returnId: 1n };
    expect(await refusal(report(absent, { category: 'rudeness' }))).toEqual(invalid('category'));
    expect(await refusal(report(absent))).toEqual(NO_RETURN);
  });

  test('publishes an event with the key of the return', async () => {
    const of = shopWithReturn();
    const { id } = await report(of, { category: 'item-is-worn' });
    expect(await service.events(of.shopId)).toMatchObject([
      {
        trigger: 'fraud_report.created',
        ...of,
        actor,
        detail: { case: 'fraudReport', value: { reportId: id, category: 'item-is-worn' } },
      },
    ]);
  });

  test('does not read a large return', async () => {
    const of = shopWithReturn();
    returns.areLarge = true;
    const made = await report(of).finally(() => (returns.areLarge = false));
    expect(made).toMatchObject({ returnId: of.returnId });
    expect(returns.readWhole).toBe(0);
  });

  test('fails with UNAVAILABLE while the returns service is unavailable, and records nothing', async () => {
    const of = shopWithReturn();
    returns.failWith = Code.Unavailable;
    const call = refusal(report(of));
    expect(await call.finally(() => (returns.failWith = undefined))).toMatchObject({
      code: Code.Unavailable,
    });
    expect(await refusal(service.client.getReport({ ...of, actor }))).toEqual(NO_REPORT);
  });
});

describe('get fraud report', () => {
  test('finds no report when none was made', async () => {
    const call = service.client.getReport({ ...shopWithReturn(), actor });
    expect(await refusal(call)).toEqual(NO_REPORT);
  });
});

describe('list fraud categories', () => {
  test('returns all eight in order, with titles and whether a comment is required', async () => {
    const { categories } = await service.client.listCategories({ shopId: newShop(), actor });
    expect(categories.map(({ id }) => id)).toEqual([...FRAUD_CATEGORIES]);
    expect(categories[1]).toMatchObject({ title: 'Package is empty', commentRequired: false });
    expect(categories.filter((category) => category.commentRequired)).toMatchObject([
      { id: 'other', title: 'Other' },
    ]);
  });
});
