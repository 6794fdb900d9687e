import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Actor_Kind, ActorSchema } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { DispositionOutcome, type Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  ApplyAssessmentsRequestSchema,
  type AssessmentSchema,
  type GradingSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { line } from '../../../test/kit/builders.ts';
import { countStatements } from '../../../test/kit/postgres/counted-statements.ts';
import { inspectionsOf } from '../../../test/kit/services/return-stores.ts';
import {
  firstLine,
  invalid,
  notFound,
  present,
  type ReturnsBench,
  startReturnsBench,
} from '../../../test/kit/services/returns-bench.ts';
import { actor, refusal } from '../../../test/kit/services/running-service.ts';
import { DETAILS_BYTES_MAX, NOTE_MAX } from '../../contract/limits.ts';
import { createPool } from '../../platform/postgres/postgres.ts';
import { detailsBytes } from '../store/details-size.ts';
import { makeLarge, readAtOnce, statementsDuring } from '../store/testing/large-returns.ts';
import { applyAssessments } from './inspections.ts';

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench();
});
afterAll(() => bench.stop());

describe('inspections', () => {
  const inspectedAt = timestampFromDate(new Date('2026-11-01T10:00:00Z'));

  function assessment(
    assessmentId: bigint,
    lineItemId: bigint,
    outcome: DispositionOutcome = DispositionOutcome.DONATE,
  ): Exclude<MessageInitShape<typeof AssessmentSchema>, { $unknown?: unknown }> & {
    images: string[];
  } {
    const disposition = {
      outcome,
      note: `note ${assessmentId}`,
      returnProcessor: 'w@x',
      inspectedAt,
    };
    return { assessmentId, lineItemId, disposition, images: [`https://a/${assessmentId}`] };
  }

  function grading(gradingId: bigint, lineItemId: bigint): MessageInitShape<typeof GradingSchema> {
    const condition = {
      subject: 'item',
      title: 'Grade A',
      grade: 'a',
      description: 'as new',
      images: [`https://g/${gradingId}`],
    };
    return { gradingId, lineItemId, condition };
  }

  const assess = (
    shopId: bigint,
    assessments: Parameters<typeof bench.client.applyAssessments>[0]['assessments'],
  ) => bench.client.applyAssessments({ shopId, actor, assessments: assessments ?? [] });
  const grade = (
    shopId: bigint,
    gradings: Parameters<typeof bench.client.applyGradings>[0]['gradings'],
  ) => bench.client.applyGradings({ shopId, actor, gradings: gradings ?? [] });

  describe('apply assessments', () => {
    test('shows the dispositions of all lines in one event', async () => {
      const submitted = await bench.submit(await bench.shop(), { lines: [line(), line()] });
      const ids = submitted.lineItems.map((one) => one.lineItemId);
      const { returns } = await assess(
        submitted.shopId,
        ids.map((id) => assessment(1n, id)),
      );
      expect(returns).toHaveLength(1);
      for (const one of present(returns[0]).lineItems) {
        expect(one.disposition).toMatchObject({
          outcome: DispositionOutcome.DONATE,
          note: 'note 1',
          returnProcessor: 'w@x',
          inspectedAt,
        });
      }
      expect(await bench.read(submitted)).toEqual(returns[0]);
      expect(await bench.triggers(submitted)).toEqual(['return.updated']);
    });

    test('ignores an id that is not newer, and keeps the previous one in the timeline', async () => {
      const submitted = await bench.submit(await bench.shop());
      const id = firstLine(submitted);
      await assess(submitted.shopId, [assessment(5n, id)]);
      await assess(submitted.shopId, [assessment(5n, id, DispositionOutcome.RECYCLE)]);
      await assess(submitted.shopId, [assessment(4n, id, DispositionOutcome.RECYCLE)]);
      expect((await bench.read(submitted)).revision).toBe(2n);

      const { returns } = await assess(submitted.shopId, [
        assessment(6n, id, DispositionOutcome.MISSING),
      ]);
      expect(returns[0]?.lineItems[0]?.disposition?.outcome).toBe(DispositionOutcome.MISSING);
      expect(await bench.triggers(submitted)).toEqual(['return.updated', 'return.updated']);
      const entries = (await bench.timeline(submitted)).filter(
        (one) => one.kind === 'line.assessed',
      );
      expect(entries).toHaveLength(2);
      expect(entries[1]?.facts).toMatchObject({
        outcome: 'missing',
        former_outcome: 'donate',
        former_note: 'note 5',
      });
    });

    test('names the inspector in the timeline, not the service that hands over', async () => {
      const submitted = await bench.submit(await bench.shop());
      const inspector = { kind: Actor_Kind.USER, id: 'w-1', name: 'Wendy' };
      const one = { ...assessment(5n, firstLine(submitted)), actor: inspector };
      await assess(submitted.shopId, [one]);
      expect((await bench.timeline(submitted)).at(-1)).toMatchObject({
        kind: 'line.assessed',
        author: 'Wendy',
      });
    });

    test('stores inspections of several returns, in any state', async () => {
      const shopId = await bench.shop();
      const [first, second] = [await bench.submit(shopId), await bench.submit(shopId)];
      await bench.end(second, 'closed');
      const { returns } = await assess(shopId, [
        assessment(2n, firstLine(second)),
        assessment(1n, firstLine(first)),
      ]);
      expect(returns.map((one) => one.id)).toEqual([first.id, second.id]);
      expect(await bench.triggers(second)).toEqual(['return.updated']);
    });

    test('stores nothing when one line item belongs to another shop', async () => {
      const submitted = await bench.submit(await bench.shop());
      const foreign = await bench.submit(await bench.shop());
      const both = [assessment(1n, firstLine(submitted)), assessment(1n, firstLine(foreign))];
      expect(await refusal(assess(submitted.shopId, both))).toEqual(notFound('LINE_ITEM'));
      expect(await bench.read(submitted)).toEqual(submitted);
    });

    test('stores an assessment of a removed line item, without showing it', async () => {
      const submitted = await bench.submit(await bench.shop(), { lines: [line(), line()] });
      const { shopId, id: returnId } = submitted;
      const changes = [{ lineItemId: firstLine(submitted), remove: true }];
      await bench.client.editReturn({ shopId, actor, returnId, expectedRevision: 1n, changes });
      const { returns } = await assess(shopId, [assessment(1n, firstLine(submitted))]);
      expect(returns[0]).toMatchObject({ revision: 2n });
      expect(returns[0]?.lineItems).toHaveLength(1);
    });

    test('rejects invalid fields', async () => {
      const shopId = await bench.shop();
      expect(await refusal(assess(shopId, []))).toEqual(invalid('assessments'));
      const unsaid = { ...assessment(1n, 1n), disposition: { note: 'x' } };
      expect(await refusal(assess(shopId, [unsaid]))).toEqual(
        invalid('assessments[0].disposition.outcome'),
      );
      const long = { ...assessment(1n, 1n), images: ['x'.repeat(2_049)] };
      expect(await refusal(assess(shopId, [long]))).toEqual(invalid('assessments[0].images[0]'));
    });

    test.each([
      ['without a kind', { id: 'x' }],
      // Protobuf allows any number as an enum.
      ['of an unknown kind', { kind: 99 as Actor_Kind, id: 'x' }],
      ['without an id', { kind: Actor_Kind.USER }],
      ['with a long name', { kind: Actor_Kind.USER, id: 'x', name: 'y'.repeat(201) }],
      ['that cannot be stored', { kind: Actor_Kind.USER, id: 'x\0' }],
    ])('rejects an inspector %s', async (_, by) => {
      const submitted = await bench.submit(await bench.shop());
      const one = { ...assessment(1n, firstLine(submitted)), actor: create(ActorSchema, by) };
      expect(await refusal(assess(submitted.shopId, [one]))).toEqual(
        invalid('assessments[0].actor'),
      );
    });

    test('needs no more statements for thirty lines than for one', async () => {
      const shopId = await bench.shop();
      const pool = createPool(bench.db.url, { max: 1 });
      const { statements: sent } = countStatements(pool);
      const counts = [];
      for (const lines of [1, 30]) {
        const submitted = await bench.submit(shopId, {
          lines: Array.from({ length: lines }, () => line()),
        });
        const assessments = submitted.lineItems.map((one) => assessment(1n, one.lineItemId));
        const request = create(ApplyAssessmentsRequestSchema, { shopId, actor, assessments });
        const before = sent.length;
        await applyAssessments(inspectionsOf(pool), request);
        counts.push(sent.length - before);
      }
      await pool.end();
      expect(counts[1]).toBe(counts[0]);
      expect(counts[0]).toBeGreaterThan(3);
    });
  });

  test('few large returns are in memory at a time, although one call is about lines of all', async () => {
    const shopId = await bench.shop();
    const returns: Return[] = [];
    for (let n = 0; n < 4; n++) returns.push(await bench.submit(shopId));
    for (const large of returns.slice(0, 3)) await makeLarge(bench.db.pool, large);
    const assessments = returns.map((one) => assessment(1n, firstLine(one)));
    const request = { shopId, actor, assessments, withoutReturns: true };
    const statements = await statementsDuring(() => bench.client.applyAssessments(request));
    expect(readAtOnce(statements)).toEqual([1, 1, 2]);
    for (const one of returns) expect(await bench.triggers(one)).toEqual(['return.updated']);
    const again = await bench.client.applyAssessments({ ...request, withoutReturns: false });
    expect(again.returns.map((one) => one.id)).toEqual(returns.map((one) => one.id));
  });

  test('a return that is above the limit may become smaller, not larger', async () => {
    const submitted = await bench.submit(await bench.shop(), { lines: [line(), line()] });
    const [first = 0n, second = 0n] = submitted.lineItems.map((one) => one.lineItemId);
    const noted = (id: bigint, lineItemId: bigint, note: string) => {
      const of = assessment(id, lineItemId);
      return assess(submitted.shopId, [{ ...of, disposition: { ...of.disposition, note } }]);
    };
    await noted(1n, first, 'n'.repeat(60_000));
    for (let n = 0; n < 6; n++) await makeLarge(bench.db.pool, submitted);
    expect(await refusal(noted(2n, second, 'one more'))).toMatchObject({
      reason: 'RETURN_TOO_LARGE',
    });
    await noted(3n, first, 'short');
    expect(await refusal(noted(4n, first, 'longer again'))).toMatchObject({
      reason: 'RETURN_TOO_LARGE',
    });
    const { lineItems } = await bench.read(submitted);
    expect(lineItems.map((one) => one.disposition?.note)).toEqual(['short', undefined]);
    expect(await bench.triggers(submitted)).toEqual(['return.updated', 'return.updated']);
  });

  describe('apply gradings', () => {
    test('shows the condition, with the images of the grading before those of the assessment', async () => {
      const submitted = await bench.submit(await bench.shop());
      const id = firstLine(submitted);
      await assess(submitted.shopId, [assessment(7n, id)]);
      expect((await bench.read(submitted)).lineItems[0]?.condition).toMatchObject({
        description: '',
        images: ['https://a/7'],
      });
      const { returns } = await grade(submitted.shopId, [grading(3n, id)]);
      expect(returns[0]?.lineItems[0]?.condition).toMatchObject({
        description: 'as new',
        grade: 'a',
        title: 'Grade A',
        images: ['https://g/3', 'https://a/7'],
      });
      expect(returns[0]?.lineItems[0]?.condition?.categoryName).toBeUndefined();
    });

    test('ignores an id that is not newer', async () => {
      const submitted = await bench.submit(await bench.shop());
      const id = firstLine(submitted);
      await grade(submitted.shopId, [grading(3n, id)]);
      await grade(submitted.shopId, [grading(3n, id)]);
      await grade(submitted.shopId, [grading(2n, id)]);
      expect(await bench.triggers(submitted)).toEqual(['return.updated']);
    });

    test('rejects a line of another shop, and a condition without grade and category', async () => {
      const shopId = await bench.shop();
      expect(await refusal(grade(shopId, [grading(1n, 1n << 40n)]))).toEqual(notFound('LINE_ITEM'));
      const neither = { gradingId: 1n, lineItemId: 1n, condition: { subject: 'x', title: 'y' } };
      expect(await refusal(grade(shopId, [neither]))).toEqual(invalid('gradings[0].condition'));
    });
  });
});

describe('an inspection without the returns in the response', () => {
  /** Characters of every length in UTF-8, characters that JSON escapes, and the marks of hashes. */
  const MIXED = 'hé€\u{1f4e6}"\\\n\u0001\u2028\u007f';
  let lastId = 0n;

  /** Hands over like the dispositions service, without the returns in the response. */
  function assess({ shopId, lineItems }: Return, notes: readonly (string | undefined)[]) {
    const assessments = notes.flatMap((note, at) => {
      const { lineItemId } = present(lineItems[at]);
      const disposition = {
        outcome: DispositionOutcome.DONATE,
        ...(note !== undefined && { note }),
      };
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

  test('about several small returns sends each of them whole', async () => {
    const shopId = await bench.shop();
    const returns = [await bench.submit(shopId), await bench.submit(shopId)];
    const assessments = returns.map((of) => ({
      lineItemId: firstLine(of),
      assessmentId: ++lastId,
      disposition: { outcome: DispositionOutcome.DONATE, note: MIXED },
    }));
    const call = { shopId, actor, assessments, withoutReturns: true };
    const statements = await statementsDuring(() => bench.client.applyAssessments(call));
    expect(readAtOnce(statements)).toEqual([2]);
    const updated = (await bench.events(shopId)).slice(2).map(({ snapshot: of }) => of);
    expect(updated).toEqual(await Promise.all(returns.map((of) => bench.read(of))));
  });

  test('reads one at a time of the returns whose images are small only in the table', async () => {
    const shopId = await bench.shop();
    const submit = () => bench.submit(shopId, { lines: Array.from({ length: 30 }, () => line()) });
    const returns = [await submit(), await submit()];
    const images = Array.from({ length: 100 }, () => 'x'.repeat(2_048));
    const assessments = returns.flatMap(({ lineItems }) =>
      lineItems.map(({ lineItemId }) => ({
        lineItemId,
        assessmentId: ++lastId,
        disposition: { outcome: DispositionOutcome.DONATE },
        images,
      })),
    );
    const call = { shopId, actor, assessments, withoutReturns: true };
    const statements = await statementsDuring(() => bench.client.applyAssessments(call));
    expect(readAtOnce(statements)).toEqual([1, 1]);
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
  });
});
