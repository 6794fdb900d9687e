import { timestampDate } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type Return, ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { LabelProvider } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import {
  invalid,
  notFound,
  present,
  type ReturnsBench,
  startReturnsBench,
  stateForbids,
} from '../../test/kit/services/returns-bench.ts';
import { actor, refusal } from '../../test/kit/services/running-service.ts';

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench();
});
afterAll(() => bench.stop());

const ENDS = ['closed', 'cancelled', 'expired'] as const;
const about = (of: Return) => ({ shopId: of.shopId, actor, returnId: of.id });
const flag = (of: Return, reasons = ['looks odd']) =>
  bench.client.flagReturn({ ...about(of), reasons, comment: 'please look' });
const unflag = (of: Return) => bench.client.unflagReturn(about(of));
const cancel = (of: Return) => bench.client.cancelReturn({ ...about(of), reason: 'kept' });

describe('flag and unflag', () => {
  test('starts and ends the review of a return, and publishes both', async () => {
    const submitted = await bench.submit(await bench.shop());
    const flagged = present((await flag(submitted)).return);
    expect(flagged).toMatchObject({
      state: ReturnState.REVIEW,
      flagReasons: ['looks odd'],
      revision: 2n,
    });
    const unflagged = present((await unflag(submitted)).return);
    expect(unflagged).toMatchObject({ state: ReturnState.OPEN, flagReasons: [], revision: 3n });
    expect(await bench.triggers(submitted)).toEqual(['return.updated', 'return.updated']);
    expect((await bench.timeline(submitted)).map((entry) => entry.kind)).toEqual([
      'return.submitted',
      'return.flagged',
      'return.unflagged',
    ]);
  });

  test('changes the time of the last update, but not of the last edit', async () => {
    const submitted = await bench.submit(await bench.shop());
    await bench.db.pool.query(
      `update returns set updated_at = updated_at - interval '1 day' where shop_id = $1`,
      [submitted.shopId],
    );
    const flagged = present((await flag(submitted)).return);
    const age = Date.now() - timestampDate(present(flagged.updatedAt)).getTime();
    expect(Math.abs(age)).toBeLessThan(60_000);
    expect([flagged.createdAt, flagged.editedAt]).toEqual([submitted.createdAt, undefined]);
  });

  test('rejects a flag without a reason', async () => {
    const submitted = await bench.submit(await bench.shop());
    expect(await refusal(flag(submitted, []))).toEqual(invalid('reasons'));
  });

  test('rejects to flag twice, to flag a queued return, and to unflag an open one', async () => {
    const submitted = await bench.submit(await bench.shop());
    expect(await refusal(unflag(submitted))).toEqual(stateForbids);
    await flag(submitted);
    expect(await refusal(flag(submitted))).toEqual(stateForbids);
    await unflag(submitted);
    await bench.queue(submitted);
    expect(await refusal(flag(submitted))).toEqual(stateForbids);
  });

  test.each(ENDS)('rejects a %s return', async (state) => {
    const submitted = await bench.submit(await bench.shop());
    await bench.end(submitted, state);
    expect(await refusal(flag(submitted))).toEqual(stateForbids);
    expect(await refusal(unflag(submitted))).toEqual(stateForbids);
  });
});

describe('a call with an idempotency key', () => {
  const keyed = { idempotencyKey: 'k-1' };
  const flagOnce = (of: Return, more: object = {}) =>
    bench.client.flagReturn({ ...about(of), reasons: ['odd'], ...keyed, ...more });

  test('changes a return once: a repeated call returns the return as it is now', async () => {
    const submitted = await bench.submit(await bench.shop());
    await flagOnce(submitted);
    const unflagged = present((await unflag(submitted)).return);
    expect((await flagOnce(submitted)).return).toEqual(unflagged);
    expect(await bench.triggers(submitted)).toEqual(['return.updated', 'return.updated']);
    const once = () => bench.client.unflagReturn({ ...about(submitted), ...keyed });
    await flag(submitted);
    await once();
    await flag(submitted);
    expect((await once()).return?.state).toBe(ReturnState.REVIEW);
  });

  test('cancels once, and a repeated call succeeds', async () => {
    const submitted = await bench.submit(await bench.shop());
    const once = () => bench.client.cancelReturn({ ...about(submitted), reason: 'kept', ...keyed });
    const cancelled = (await once()).return;
    expect((await once()).return).toEqual(cancelled);
    expect(await refusal(cancel(submitted))).toEqual(stateForbids);
  });

  test('is rejected with other content, and can be repeated after a failed call', async () => {
    const submitted = await bench.submit(await bench.shop());
    await flag(submitted);
    expect(await refusal(flagOnce(submitted))).toEqual(stateForbids);
    await unflag(submitted);
    await flagOnce(submitted);
    expect(await refusal(flagOnce(submitted, { comment: 'other' }))).toMatchObject({
      reason: 'IDEMPOTENCY_CONFLICT',
      field: 'idempotency_key',
    });
  });

  test('changes a return once when eight calls race', async () => {
    const submitted = await bench.submit(await bench.shop());
    const calls = await Promise.all(Array.from({ length: 8 }, () => flagOnce(submitted)));
    for (const { return: of } of calls) expect(of?.revision).toBe(2n);
    expect(await bench.triggers(submitted)).toEqual(['return.updated']);
  });
});

describe('cancel', () => {
  test('cancels an open return and one in review', async () => {
    const shopId = await bench.shop();
    const [open, flagged] = [await bench.submit(shopId), await bench.submit(shopId)];
    await flag(flagged);
    for (const one of [open, flagged]) {
      const cancelled = present((await cancel(one)).return);
      expect(cancelled).toMatchObject({ state: ReturnState.CANCELLED, flagReasons: [] });
    }
    expect(await bench.triggers(open)).toEqual(['return.updated']);
    expect((await bench.timeline(open)).at(-1)).toMatchObject({
      kind: 'return.cancelled',
      text: 'kept',
      author: actor.name,
    });
  });

  test('cancels the open label request in the same transaction, with the same snapshot', async () => {
    const shopId = await bench.shop({ labelProvider: LabelProvider.THIRD_PARTY });
    const submitted = await bench.submit(shopId);
    const cancelled = (await cancel(submitted)).return;
    const published = (await bench.events(shopId)).slice(2);
    expect(published.map((event) => event.trigger)).toEqual([
      'return.updated',
      'label.request.cancelled',
    ]);
    for (const event of published) expect(event.snapshot).toEqual(cancelled);
  });

  test.each(ENDS)('rejects a %s return', async (state) => {
    const submitted = await bench.submit(await bench.shop());
    await bench.end(submitted, state);
    expect(await refusal(cancel(submitted))).toEqual(stateForbids);
  });

  test('rejects a queued return, and one that does not exist', async () => {
    const submitted = await bench.submit(await bench.shop());
    expect(await refusal(cancel({ ...submitted, id: 999_999_998n }))).toEqual(notFound('RETURN'));
    await bench.queue(submitted);
    expect(await refusal(cancel(submitted))).toEqual(stateForbids);
  });
});
