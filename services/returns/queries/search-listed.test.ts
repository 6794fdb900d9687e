import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  CustomerUpload_Kind,
  DispositionOutcome,
  type LineItem,
  type Return,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { line } from '../../../test/kit/builders.ts';
import {
  firstLine,
  present,
  type ReturnsBench,
  startReturnsBench,
} from '../../../test/kit/services/returns-bench.ts';
import { actor } from '../../../test/kit/services/running-service.ts';

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench();
});
afterAll(() => bench.stop());

const inspectedAt = timestampFromDate(new Date('2026-01-01T00:00:00Z'));
const images = ['https://a.example/1'];
const inspectionTexts = { returnProcessor: 'w@x', note: 'a note', inspectedAt };

/** Assesses all lines of a return, and grades the first, which gets an upload too. */
async function inspect({ shopId, lineItems }: Return): Promise<void> {
  const by = { shopId, actor };
  const [lineItemId = 0n] = lineItems.map((one) => one.lineItemId);
  const disposition = { outcome: DispositionOutcome.DONATE, ...inspectionTexts };
  const assessments = lineItems.map((one) => ({
    assessmentId: 1n,
    lineItemId: one.lineItemId,
    disposition,
    images,
  }));
  await bench.client.applyAssessments({ ...by, assessments });
  const condition = {
    subject: 'item',
    title: 'Grade A',
    grade: 'a',
    description: 'new',
    ...inspectionTexts,
  };
  const grading = { gradingId: 1n, lineItemId, condition: { ...condition, images } };
  await bench.client.applyGradings({ ...by, gradings: [grading] });
  const upload = { kind: CustomerUpload_Kind.IMAGE, url: 'https://u.example/1' };
  await bench.client.addCustomerUpload({ ...by, lineItemId, ...upload });
}

/** A line item without the fields that a list leaves out. */
function listed({ condition, disposition, ...rest }: LineItem): object {
  const { note: _, ...decided } = present(disposition);
  const { note: __, ...graded } = condition ?? {};
  const isGraded = condition !== undefined && condition.title !== '';
  return {
    ...rest,
    uploads: [],
    disposition: decided,
    ...(isGraded && { condition: { ...graded, description: '', images: [] } }),
  };
}

describe('search returns without long texts', () => {
  test('omits only what a list does not show', async () => {
    const shopId = await bench.shop();
    const submitted = await bench.submit(shopId, { lines: [line(), line()] });
    await inspect(submitted);
    const whole = await bench.read(submitted);
    expect(present(whole.lineItems[0])).toMatchObject({
      lineItemId: firstLine(submitted),
      condition: { note: 'a note', description: 'new', images: [...images, ...images] },
      disposition: { note: 'a note' },
      uploads: [{ url: 'https://u.example/1' }],
    });
    const { returns } = await bench.client.searchReturns({ shopId, actor, withoutLongTexts: true });
    expect(returns).toEqual([{ ...whole, lineItems: whole.lineItems.map(listed) }]);
  });

  test('stops a page before it has too many lines', async () => {
    const shopId = await bench.shop();
    const made: bigint[] = [];
    for (let one = 0; one < 5; one += 1) {
      // A page counts about 0.3 MiB for each: three fit into 1 MiB.
      const lines = Array.from({ length: 250 }, () => line());
      made.unshift((await bench.submit(shopId, { lines })).id);
    }
    const pages: bigint[][] = [];
    let cursor = '';
    do {
      const request = { shopId, actor, withoutLongTexts: true, cursor };
      const page = await bench.client.searchReturns(request);
      expect(page.total).toBe(5);
      pages.push(page.returns.map(({ id }) => id));
      cursor = page.nextCursor;
    } while (cursor !== '');
    expect(pages).toEqual([made.slice(0, 3), made.slice(3)]);
  });
});
