import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { DispositionOutcome, type Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { line } from '../../../test/kit/builders.ts';
import { copiesOf } from '../../../test/kit/postgres/stored-copies.ts';
import { type ReturnsBench, startReturnsBench } from '../../../test/kit/services/returns-bench.ts';
import { actor } from '../../../test/kit/services/running-service.ts';

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
