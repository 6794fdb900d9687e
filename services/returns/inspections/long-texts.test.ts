import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { DispositionOutcome, type Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { ApplyAssessmentsRequestSchema } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { line } from '../../../test/kit/builders.ts';
import { inspectionsOf } from '../../../test/kit/services/return-stores.ts';
import {
  present,
  type ReturnsBench,
  startReturnsBench,
} from '../../../test/kit/services/returns-bench.ts';
import { actor, refusal } from '../../../test/kit/services/running-service.ts';
import { DETAILS_BYTES_MAX, NOTE_MAX } from '../../contract/limits.ts';
import { createPool } from '../../platform/postgres.ts';
import { detailsBytes } from '../store/details-size.ts';
import { applyAssessments } from './assessments.ts';

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench();
});
afterAll(() => bench.stop());

/** Characters of every length in UTF-8, characters that JSON escapes, and the marks of hashes. */
const MIXED = 'hé€\u{1f4e6}"\\\n\u0001\u2028\u007f';
let lastId = 0n;

/** Hands over like the dispositions service, without the returns in the response. */
function assess({ shopId, lineItems }: Return, notes: readonly (string | undefined)[]) {
  const assessments = notes.flatMap((note, at) => {
    const { lineItemId } = present(lineItems[at]);
    const disposition = { outcome: DispositionOutcome.DONATE, ...(note !== undefined && { note }) };
    return [{ lineItemId, assessmentId: ++lastId, disposition }];
  });
  return bench.client.applyAssessments({ shopId, actor, assessments, withoutReturns: true });
}

async function grade({ shopId, lineItems }: Return, description: string): Promise<void> {
  const { lineItemId } = present(lineItems[0]);
  const condition = { subject: 'item', title: 'Grade A', grade: 'a', description, note: 'short' };
  const gradings = [{ lineItemId, gradingId: ++lastId, condition }];
  await bench.client.applyGradings({ shopId, actor, gradings, withoutReturns: true });
}

const snapshot = async ({ shopId, id: returnId }: Return, revision: bigint) =>
  (await bench.client.getSnapshot({ shopId, actor, returnId, revision })).return;

describe('an inspection without the returns in the response', () => {
  test('leaves long texts out of the event, and its snapshot is still whole', async () => {
    const lines = [line(), line(), line()];
    const of = await bench.submit(await bench.shop(), { lines });
    const notes = [MIXED.repeat(2_000), 't short', undefined];
    await assess(of, notes);
    const assessed = await bench.read(of);
    expect(assessed.lineItems.map(({ disposition }) => disposition?.note)).toEqual(notes);
    await grade(of, MIXED.repeat(3_000));
    const graded = await bench.read(of);
    await assess(of, ['short']);
    await grade(of, 'short');
    expect(await snapshot(of, 2n)).toEqual(assessed);
    expect(await snapshot(of, 3n)).toEqual(graded);
    const events = await bench.events(of.shopId);
    const published = events.map(({ revision, snapshotOmitted }) => [revision, snapshotOmitted]);
    expect(published.slice(1)).toEqual([
      [2n, true],
      [3n, true],
      [4n, true],
      [5n, false],
    ]);
    expect(events.at(-1)?.snapshot).toEqual(await bench.read(of));
  });

  test('does not read the long texts', async () => {
    const of = await bench.submit(await bench.shop(), { lines: [line(), line()] });
    await assess(of, ['n'.repeat(NOTE_MAX)]);
    const pool = createPool(bench.db.url);
    let read = 0;
    pool.on('connect', (client) => {
      client.connection.stream.on('data', (data: Buffer) => {
        read += data.length;
      });
    });
    const { shopId, lineItems } = of;
    const disposition = { outcome: DispositionOutcome.DONATE, note: 'a short one' };
    const lineItemId = present(lineItems[1]).lineItemId;
    const assessments = [{ lineItemId, assessmentId: ++lastId, disposition }];
    const request = { shopId, actor, assessments, withoutReturns: true };
    await applyAssessments(inspectionsOf(pool), create(ApplyAssessmentsRequestSchema, request));
    await pool.end();
    expect((await bench.read(of)).lineItems[1]?.disposition?.note).toBe('a short one');
    expect(read).toBeGreaterThan(500);
    expect(read).toBeLessThan(NOTE_MAX / 2);
  });

  test('fills the details of a return to their last byte, and no further', async () => {
    const lines = Array.from({ length: 66 }, () => line());
    const of = await bench.submit(await bench.shop(), { lines });
    const filling = '\u0001'.repeat(NOTE_MAX);
    await assess(of, [...Array<string>(63).fill(filling), 'n']);
    const fittingBytes =
      DETAILS_BYTES_MAX - detailsBytes(await bench.read(of)) + JSON.stringify('n').length;
    /** A note of this many bytes as JSON. */
    const noteOf = (bytes: number) => {
      const escaped = Math.trunc((bytes - 2) / 6);
      return '\u0001'.repeat(escaped) + 'n'.repeat((bytes - 2) % 6);
    };
    const fill = (note: string) => assess(of, [...Array<string>(63).fill(filling), note]);
    expect(await refusal(fill(noteOf(fittingBytes + 1)))).toMatchObject({
      reason: 'RETURN_TOO_LARGE',
    });
    await fill(noteOf(fittingBytes));
    expect(detailsBytes(await bench.read(of))).toBe(DETAILS_BYTES_MAX);
  }, 60_000);
});
