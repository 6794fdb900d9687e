import { randomUUID } from 'node:crypto';
import { type Timestamp, timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Actor_Kind } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import {
  CustomerUpload_Kind,
  DispositionOutcome,
  LabelStatus,
  type LineItem,
  Outcome,
  type Return,
  ReturnState,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { SearchReturnsRequest_Sort as Sort } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { line } from '../../../test/kit/builders.ts';
import { WAREHOUSE } from '../../../test/kit/services/fake-destinations.ts';
import {
  firstLine,
  invalid,
  present,
  type ReturnsBench,
  startReturnsBench,
} from '../../../test/kit/services/returns-bench.ts';
import { actor, refusal } from '../../../test/kit/services/running-service.ts';

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench();
});
afterAll(() => bench.stop());

const day = (n: number) => timestampFromDate(new Date(Date.UTC(2026, 0, n)));
type Search = Omit<Parameters<ReturnsBench['client']['searchReturns']>[0], '$typeName'>;

const search = (shopId: bigint, more: Search = {}) =>
  bench.client.searchReturns({ shopId, actor, ...more });
const found = async (shopId: bigint, more: Search = {}) =>
  (await search(shopId, more)).returns.map((one) => one.id);

describe('search returns', () => {
  test('lists newest first, page by page, each once, also with the same time', async () => {
    const shopId = await bench.shop();
    const made = [];
    for (const n of [1, 2, 2, 2, 3]) {
      made.unshift((await bench.submit(shopId, { submittedAt: day(n) })).id);
    }
    const seen = [];
    let cursor = '';
    do {
      const page = await search(shopId, { pageSize: 2, cursor });
      expect(page.total).toBe(5);
      seen.push(...page.returns.map((one) => one.id));
      cursor = page.nextCursor;
    } while (cursor !== '');
    expect(seen).toEqual(made);
  });

  test('stops a page before a return that does not fit', async () => {
    const shopId = await bench.shop();
    const note = 'n'.repeat(65_535);
    // 4.4 MiB, so that two are more than the 8 MiB of a page.
    const large = async (submittedAt: Timestamp) => {
      const lines = Array.from({ length: 70 }, () => line());
      const made = await bench.submit(shopId, { submittedAt, lines });
      await bench.db.pool.query(
        `insert into line_dispositions (shop_id, line_item_id, assessment_id, outcome, note)
         select shop_id, id, 1, 'donate', $3 from return_lines where shop_id = $1 and return_id = $2`,
        [shopId, made.id, note],
      );
      return made.id;
    };
    // The ids are in the reverse order of the page.
    const made = [await large(day(4)), await large(day(3)), await large(day(2))];
    made.push((await bench.submit(shopId, { submittedAt: day(1) })).id);
    const pages = [];
    let cursor = '';
    do {
      const page = await search(shopId, { cursor });
      expect(page.total).toBe(4);
      pages.push(page.returns.map((one) => one.id));
      cursor = page.nextCursor;
    } while (cursor !== '');
    expect(pages).toEqual([[made[0]], [made[1]], [made[2], made[3]]]);
    // A list leaves the large parts out, so all fit.
    expect(await found(shopId, { withoutLongTexts: true })).toEqual(made);
  });

  test('filters by state, flag, time, SKU and destination', async () => {
    const shopId = await bench.shop();
    const plain = await bench.submit(shopId, { submittedAt: day(1) });
    const special = await bench.submit(shopId, {
      submittedAt: day(2),
      flagReasons: ['x'],
      destinationId: WAREHOUSE,
      lines: [line({ sku: 'S-1' })],
    });
    expect(await found(shopId, { states: [ReturnState.OPEN] })).toEqual([plain.id]);
    expect(await found(shopId, { flaggedOnly: true })).toEqual([special.id]);
    expect(await found(shopId, { sku: 'S-1' })).toEqual([special.id]);
    expect(await found(shopId, { destinationId: WAREHOUSE })).toEqual([special.id]);
    expect(await found(shopId, { createdFrom: day(2) })).toEqual([special.id]);
    expect(await found(shopId, { createdTo: day(2) })).toEqual([plain.id]);
  });

  test('omits archived returns unless requested', async () => {
    const shopId = await bench.shop();
    const closed = await bench.submit(shopId);
    await bench.end(closed, 'closed');
    expect(await found(shopId)).toEqual([]);
    expect(await found(shopId, { includeArchived: true })).toEqual([closed.id]);
    expect(await found(shopId, { states: [ReturnState.CLOSED] })).toEqual([closed.id]);
  });

  test('filters by the last change, and by the status of the newest label', async () => {
    const shopId = await bench.shop();
    const [moved, waiting, plain] = [
      await bench.submit(shopId),
      await bench.submit(shopId),
      await bench.submit(shopId),
    ];
    const about = { shopId, actor, carrier: 'DHL' };
    const recordLabel = async (returnId: bigint, status: LabelStatus) => {
      const idempotencyKey = randomUUID();
      await bench.client.recordLabel({ ...about, idempotencyKey, returnId, status });
    };
    await recordLabel(waiting.id, LabelStatus.NEW);
    await recordLabel(moved.id, LabelStatus.NEW);
    await recordLabel(moved.id, LabelStatus.IN_TRANSIT);
    expect(await found(shopId, { labelStatuses: [LabelStatus.NEW] })).toEqual([waiting.id]);
    const either = [LabelStatus.NEW, LabelStatus.IN_TRANSIT];
    expect(await found(shopId, { labelStatuses: either })).toEqual([waiting.id, moved.id]);

    expect(await found(shopId, { withoutLabel: true })).toEqual([plain.id]);
    const newOrNone = { labelStatuses: [LabelStatus.NEW], withoutLabel: true };
    expect(await found(shopId, newOrNone)).toEqual([plain.id, waiting.id]);
    expect(await search(shopId, { ...newOrNone, pageSize: 1 })).toMatchObject({ total: 2 });

    const changed = present((await bench.read(moved)).updatedAt);
    expect(await found(shopId, { updatedFrom: changed })).toEqual([moved.id]);
    const others = await found(shopId, { updatedTo: changed, sort: Sort.UPDATED_ASC });
    expect(others).toEqual([plain.id, waiting.id]);
    expect(await found(shopId, { sort: Sort.UPDATED_DESC })).toEqual([
      moved.id,
      waiting.id,
      plain.id,
    ]);
  });

  test('filters by outcome, also together with the label', async () => {
    const shopId = await bench.shop();
    const credit = { outcome: Outcome.CREDIT, amounts: { returnCredit: { shop: '20' } } };
    const refunded = await bench.submit(shopId);
    const credited = await bench.submit(shopId, credit);
    expect(await found(shopId, { outcomes: [Outcome.CREDIT] })).toEqual([credited.id]);
    expect(await found(shopId, { outcomes: [Outcome.CREDIT, Outcome.REFUND] })).toEqual([
      credited.id,
      refunded.id,
    ]);
    expect(await found(shopId, { outcomes: [Outcome.EXCHANGE] })).toEqual([]);
    const both = { outcomes: [Outcome.REFUND], withoutLabel: true };
    expect(await search(shopId, both)).toMatchObject({ total: 1, returns: [{ id: refunded.id }] });
    expect(await found(shopId, { ...both, query: '#none' })).toEqual([]);
    expect(await refusal(search(shopId, { outcomes: [Outcome.UNSPECIFIED] }))).toEqual(
      invalid('outcomes[0]'),
    );
  });

  test('rejects a page size that is too large, and an invalid cursor', async () => {
    const shopId = await bench.shop();
    expect(await refusal(search(shopId, { pageSize: 201 }))).toEqual(invalid('page_size'));
    for (const cursor of ['x', '!!', Buffer.from('["1"]').toString('base64url')]) {
      expect(await refusal(search(shopId, { cursor }))).toEqual(invalid('cursor'));
    }
  });
});

describe('summarize', () => {
  test('counts by state, outcome and reason in a period', async () => {
    const shopId = await bench.shop();
    const lines = () => [line({ reason: 'too small' }), line({ reason: 'colour' })];
    await bench.submit(shopId, { lines: lines(), flagReasons: ['x'], submittedAt: day(2) });
    await bench.submit(shopId, { lines: [line({ reason: 'colour' })], submittedAt: day(3) });
    await bench.submit(shopId, {
      outcome: Outcome.CREDIT,
      amounts: { returnCredit: { shop: '20' } },
      submittedAt: day(3),
    });
    await bench.submit(shopId, { submittedAt: day(9) });
    const summary = await bench.client.summarize({
      shopId,
      actor,
      createdFrom: day(2),
      createdTo: day(9),
    });
    expect(summary).toMatchObject({
      total: 3,
      byState: [
        { state: ReturnState.OPEN, count: 2 },
        { state: ReturnState.REVIEW, count: 1 },
      ],
      byOutcome: [
        { outcome: Outcome.CREDIT, count: 1, returnTotal: '20.00' },
        { outcome: Outcome.REFUND, count: 2, returnTotal: '60.00' },
      ],
      byReason: [
        { reason: 'colour', count: 2 },
        { reason: 'too small', count: 1 },
      ],
    });
  });

  test('counts the last thirty days by default, and rejects a period that ends before it begins', async () => {
    const shopId = await bench.shop();
    await bench.submit(shopId, { submittedAt: day(1) });
    await bench.submit(shopId);
    expect((await bench.client.summarize({ shopId, actor })).total).toBe(1);
    const backwards = { shopId, actor, createdFrom: day(2), createdTo: day(1) };
    expect(await refusal(bench.client.summarize(backwards))).toEqual(invalid('created_to'));
  });
});

describe('timeline and notes', () => {
  test('a note is written, shown newest first, and changes nothing else', async () => {
    const submitted = await bench.submit(await bench.shop());
    const about = { shopId: submitted.shopId, actor, returnId: submitted.id };
    const { entry } = await bench.client.addNote({ ...about, text: 'called the shopper 🧣' });
    await bench.client.addNote({ ...about, text: 'again', author: 'Bob' });
    expect(entry).toMatchObject({
      kind: 'note',
      text: 'called the shopper 🧣',
      author: actor.name,
    });

    const first = await bench.client.getTimeline({ ...about, pageSize: 2 });
    expect(first.entries.map((one) => one.author)).toEqual(['Bob', actor.name]);
    expect(first.entries[1]).toEqual(present(entry));
    const next = await bench.client.getTimeline({ ...about, cursor: first.nextCursor });
    expect(next).toMatchObject({ entries: [{ kind: 'return.submitted' }], nextCursor: '' });
    const other = await bench.submit(submitted.shopId);
    const wrong = { ...about, returnId: other.id, cursor: first.nextCursor };
    expect(await refusal(bench.client.getTimeline(wrong))).toEqual(invalid('cursor'));
    expect(await bench.triggers(submitted)).toEqual([]);
    expect(await bench.read(submitted)).toEqual(submitted);
  });

  test('an entry says through what a user acted', async () => {
    const submitted = await bench.submit(await bench.shop());
    const through = 'assistant claude.ai';
    const user = { kind: Actor_Kind.USER, id: '7', name: 'Bob', through };
    const about = { shopId: submitted.shopId, actor: user, returnId: submitted.id };
    await bench.client.cancelReturn({ ...about, reason: 'Duplicate of another return' });
    const { entries } = await bench.client.getTimeline({ ...about, pageSize: 1 });
    expect(entries).toMatchObject([
      { kind: 'return.cancelled', text: 'Duplicate of another return', actor: user },
    ]);
    const long = { ...about, actor: { ...user, through: 'x'.repeat(201) } };
    expect(await refusal(bench.client.addNote({ ...long, text: 'x' }))).toEqual(invalid('actor'));
  });

  test('only entries of some kinds are listed on request, page by page', async () => {
    const submitted = await bench.submit(await bench.shop());
    const about = { shopId: submitted.shopId, actor, returnId: submitted.id };
    for (const text of ['one', 'two']) await bench.client.addNote({ ...about, text });
    const notes = { ...about, kinds: ['note'], pageSize: 1 };
    const first = await bench.client.getTimeline(notes);
    const next = await bench.client.getTimeline({ ...notes, cursor: first.nextCursor });
    expect([first, next]).toMatchObject([
      { entries: [{ text: 'two' }] },
      { entries: [{ text: 'one' }], nextCursor: '' },
    ]);
    const wrong = { ...about, cursor: first.nextCursor };
    expect(await refusal(bench.client.getTimeline(wrong))).toEqual(invalid('cursor'));
  });

  test('a note with a key is written once, also by ten parallel calls', async () => {
    const submitted = await bench.submit(await bench.shop());
    const about = { shopId: submitted.shopId, actor, returnId: submitted.id };
    const request = { ...about, text: 'called', idempotencyKey: 'k' };
    const calls = Array.from({ length: 10 }, () => bench.client.addNote(request));
    const ids = (await Promise.all(calls)).map(({ entry }) => entry?.id);
    expect(new Set(ids).size).toBe(1);
    const { entries } = await bench.client.getTimeline({ ...about, pageSize: 10 });
    expect(entries.filter(({ kind }) => kind === 'note')).toMatchObject([{ id: ids[0] }]);
    const conflict = {
      code: Code.AlreadyExists,
      reason: 'IDEMPOTENCY_CONFLICT',
      field: 'idempotency_key',
    };
    const other = bench.client.addNote({ ...request, text: 'another' });
    expect(await refusal(other)).toEqual(conflict);
    const elsewhere = { ...request, returnId: (await bench.submit(submitted.shopId)).id };
    expect(await refusal(bench.client.addNote(elsewhere))).toEqual(conflict);
  });

  test('a note has 1 to 65535 characters', async () => {
    const submitted = await bench.submit(await bench.shop());
    const about = { shopId: submitted.shopId, actor, returnId: submitted.id };
    for (const text of ['', ' \n', 'x'.repeat(65_536), 'a\0']) {
      expect(await refusal(bench.client.addNote({ ...about, text }))).toEqual(invalid('text'));
    }
    const { entry } = await bench.client.addNote({ ...about, text: '🧣'.repeat(65_535) });
    expect(entry?.text).toHaveLength(2 * 65_535);
  });
});

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
