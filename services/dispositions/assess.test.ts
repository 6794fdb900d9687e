import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type pg from 'pg';
import { DispositionOutcome } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { ReturnsService } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { countStatements } from '../../test/kit/postgres/counted-statements.ts';
import {
  type DispositionsBench,
  FINDING,
  invalid,
  type NewAssessment,
  notesIn,
  refusedAsTooLarge,
  rejectLarge,
  startDispositionsBench,
  tooLarge,
  UNKNOWN_OUTCOME,
} from '../../test/kit/services/dispositions-bench.ts';
import { actor, identity, refusal } from '../../test/kit/services/running-service.ts';
import { until } from '../../test/kit/until.ts';
import { createPool } from '../platform/postgres/postgres.ts';
import { createServiceClient, type ServiceClient } from '../platform/rpc/client.ts';
import { serviceActor } from '../platform/security/identity.ts';
import { deleteInspections } from './delete-inspections.ts';
import { type Batch, inspect, record } from './inspect.ts';

let bench: DispositionsBench;
beforeAll(async () => {
  bench = await startDispositionsBench();
});
afterAll(() => bench.stop());

const at = (text: string) => timestampFromDate(new Date(text));

describe('assess', () => {
  test('records the findings and returns them in the order of the request', async () => {
    const { shopId, lines } = bench.shopWithLines(3);
    const items = lines.toReversed().map((lineItemId, index) => ({
      lineItemId,
      outcome: DispositionOutcome.RECYCLE,
      returnProcessor: 'north@example.com',
      note: `note ${index}`,
      inspectedAt: at('2026-09-01T10:11:12.345Z'),
      images: [`https://img.example/${index}`],
    }));
    const answered = await bench.assess(shopId, items);
    expect(answered).toMatchObject(
      items.map(({ lineItemId, images, ...disposition }) => ({ lineItemId, disposition })),
    );
    const { items: read } = await bench.client.getDispositions({
      shopId,
      actor,
      lineItemIds: items.map(({ lineItemId }) => lineItemId),
    });
    expect(read).toEqual(answered);
  });

  test('hands over everything to returns before it responds', async () => {
    const { shopId, lines } = bench.shopWithLines(2);
    const images = ['https://img.example/1', 'https://img.example/2'];
    const answered = await bench.assess(
      shopId,
      lines.map((lineItemId) => ({ lineItemId, note: 'worn', images })),
    );
    expect(bench.returns.assessments.filter((call) => call.shopId === shopId)).toMatchObject([
      // The service is the actor, and each assessment has its inspector.
      { actor: serviceActor('dispositions'), assessments: lines.map(() => ({ actor })) },
    ]);
    const handed = bench.handedTo(shopId);
    expect(handed).toMatchObject(
      answered.map(({ lineItemId, disposition }) => ({ lineItemId, disposition, images, actor })),
    );
    expect(handed[0]?.assessmentId).toBeGreaterThan(0n);
    expect(await bench.pendingOf(shopId)).toBe(0);
  });

  test('publishes the lines, once for each call', async () => {
    const { shopId, lines } = bench.shopWithLines(2);
    await bench.assess(
      shopId,
      lines.map((lineItemId) => ({ lineItemId })),
    );
    const [event, ...others] = await bench.events(shopId);
    expect(others).toEqual([]);
    expect(event).toMatchObject({ trigger: 'items.assessed', actor });
    expect(event?.detail).toMatchObject({ case: 'itemsInspected' });
    const published = event?.detail.case === 'itemsInspected' ? event.detail.value.lineItemIds : [];
    expect(new Set(published)).toEqual(new Set(lines));
  });

  test('with a key is recorded once, and a repeated call returns the newest finding of the line item', async () => {
    const { shopId, line } = bench.shopWithLines(1);
    const once = (note = 'first') =>
      bench.client.assess({
        shopId,
        actor,
        items: [{ lineItemId: line, note }],
        idempotencyKey: 'k-1',
      });
    await once();
    await bench.assess(shopId, [{ lineItemId: line, note: 'second' }]);
    expect((await once()).items).toMatchObject([{ disposition: { note: 'second' } }]);
    expect(bench.handedTo(shopId)).toHaveLength(2);
    expect(await refusal(once('other'))).toMatchObject({ reason: 'IDEMPOTENCY_CONFLICT' });
  });

  test('a later assessment replaces the previous one', async () => {
    const { shopId, line } = bench.shopWithLines(1);
    await bench.assess(shopId, [{ lineItemId: line, note: 'first' }]);
    await bench.assess(shopId, [{ lineItemId: line, note: 'second' }]);
    const items = await bench.currentOf(shopId, [line]);
    expect(items).toMatchObject([{ disposition: { note: 'second' } }]);
    const [first, second] = bench.handedTo(shopId);
    expect(second?.assessmentId).toBeGreaterThan(first?.assessmentId ?? 0n);
  });

  test('keeps the ids of a line in the order of its commits, also in a race', async () => {
    const { shopId, lines } = bench.shopWithLines(4);
    const calls = Array.from({ length: 12 }, (_, n) => {
      const order = n % 2 ? lines : lines.toReversed();
      return bench.assess(
        shopId,
        order.map((lineItemId) => ({ lineItemId, note: `${n}` })),
      );
    });
    await Promise.all(calls);
    for (const line of lines) {
      const { rows } = await bench.db.pool.query(
        `select max(i.id) = min(l.inspection_id) as is_newest, count(*) as made
           from inspected_lines l join inspections i
             on i.shop_id = l.shop_id and i.kind = l.kind and i.line_item_id = l.line_item_id
          where l.shop_id = $1 and l.line_item_id = $2`,
        [shopId, line],
      );
      expect(rows).toEqual([{ is_newest: true, made: 12n }]);
    }
    expect(await bench.pendingOf(shopId)).toBe(0);
  });

  test('records parallel equal calls once', async () => {
    const { shopId, lines } = bench.shopWithLines(4);
    const say = (note: string) =>
      bench.assess(
        shopId,
        lines.map((lineItemId) => ({ lineItemId, note })),
      );
    await say('before');
    const answers = await Promise.all(Array.from({ length: 8 }, () => say('again')));
    for (const answer of answers) expect(answer).toEqual(answers[0]);
    const sql = 'select count(*) as made from inspections where shop_id = $1';
    expect((await bench.db.pool.query(sql, [shopId])).rows).toEqual([{ made: 8n }]);
  });

  test('reads the owners of the line items from returns once', async () => {
    const { shopId, lines } = bench.shopWithLines(30);
    const before = bench.returns.checks;
    await bench.assess(
      shopId,
      lines.map((lineItemId) => ({ lineItemId })),
    );
    expect(bench.returns.checks - before).toBe(1);
  });

  test('needs no more statements for thirty lines than for one', async () => {
    const pool = createPool(bench.db.url, { max: 1 });
    const { statements } = countStatements(pool);
    const needed = async (count: number) => {
      const { shopId, lines } = bench.shopWithLines(count);
      const findings = lines.map((lineItemId) => ({ ...FINDING, lineItemId }));
      const before = statements.length;
      await record(pool, { shopId, actor, kind: 'assessment', findings });
      return statements.length - before;
    };
    const one = await needed(1);
    const thirty = await needed(30);
    await pool.end();
    expect(one).toBeGreaterThan(0);
    expect(thirty).toBe(one);
  });

  test('accepts the largest valid request', async () => {
    const { shopId, lines } = bench.shopWithLines(30);
    const note = '\u{1f4e6}'.repeat(65_535);
    const images = Array.from({ length: 100 }, (_, n) => `${n}`.padEnd(2_048, 'x'));
    const answered = await bench.assess(
      shopId,
      lines.map((lineItemId) => ({ lineItemId, note, images })),
    );
    expect(answered.every(({ disposition }) => disposition?.note === note)).toBe(true);
    expect(bench.handedTo(shopId)).toHaveLength(30);
  });
});

describe('assess rejects', () => {
  test.each<[string, Partial<NewAssessment>, string]>([
    [
      'a processor of more than 100 characters',
      { returnProcessor: 'x'.repeat(101) },
      'return_processor',
    ],
    ['a note of more than 65,535 characters', { note: 'x'.repeat(65_536) }, 'note'],
    ['NUL in a note', { note: '\0' }, 'note'],
    ['an image of more than 2,048 characters', { images: ['x', 'x'.repeat(2_049)] }, 'images[1]'],
    ['more than 100 images', { images: Array.from({ length: 101 }, () => 'x') }, 'images'],
    ['an unknown outcome', { outcome: UNKNOWN_OUTCOME }, 'outcome'],
    ['a line item of zero', { lineItemId: 0n }, 'line_item_id'],
  ])('%s, and records none of the call', async (_, change, field) => {
    const { shopId, lines } = bench.shopWithLines(2);
    const [good = 0n, bad = 0n] = lines;
    const call = bench.assess(shopId, [{ lineItemId: good }, { lineItemId: bad, ...change }]);
    expect(await refusal(call)).toEqual(invalid(`items[1].${field}`));
    const items = await bench.currentOf(shopId, [good]);
    expect(items).toEqual([]);
  });

  test('no lines, and more than 30', async () => {
    const { shopId, lines } = bench.shopWithLines(31);
    expect(await refusal(bench.assess(shopId, []))).toEqual(invalid('items'));
    const all = lines.map((lineItemId) => ({ lineItemId }));
    expect(await refusal(bench.assess(shopId, all))).toEqual(invalid('items'));
    expect(await bench.assess(shopId, all.slice(1))).toHaveLength(30);
  });

  test('a line item twice', async () => {
    const { shopId, line } = bench.shopWithLines(1);
    const call = bench.assess(shopId, [{ lineItemId: line }, { lineItemId: line, note: 'again' }]);
    expect(await refusal(call)).toEqual(invalid('items[1].line_item_id'));
  });

  test('a line that does not exist, and a line of another shop', async () => {
    const theirs = bench.shopWithLines(1);
    const { shopId, line } = bench.shopWithLines(1);
    for (const lineItemId of [theirs.line, 999_999_999n]) {
      const items = [{ lineItemId: line }, { lineItemId }];
      for (const [place, given] of [items, items.toReversed()].entries()) {
        const field = `items[${1 - place}].line_item_id`;
        expect(await refusal(bench.assess(shopId, given))).toEqual(invalid(field));
      }
    }
    expect(await bench.events(shopId)).toEqual([]);
    const read = { shopId, actor, lineItemIds: [theirs.line] };
    await bench.assess(theirs.shopId, [{ lineItemId: theirs.line }]);
    expect((await bench.client.getDispositions(read)).items).toEqual([]);
  });
});

describe('assess again', () => {
  test.each<[string, Partial<NewAssessment>]>([
    ['with a time', { inspectedAt: at('2026-09-01T10:00:00Z'), note: 'worn', images: ['x'] }],
    ['without a time', { note: 'worn' }],
  ])('with equal content %s changes nothing', async (_, finding) => {
    const { shopId, line } = bench.shopWithLines(1);
    const first = await bench.assess(shopId, [{ lineItemId: line, ...finding }]);
    expect(await bench.assess(shopId, [{ lineItemId: line, ...finding }])).toEqual(first);
    expect(bench.handedTo(shopId)).toHaveLength(1);
    expect(await bench.events(shopId)).toHaveLength(1);
  });

  test.each<[string, Partial<NewAssessment>]>([
    ['time', { inspectedAt: at('2026-09-01T10:00:01Z') }],
    ['note', { note: 'torn' }],
    ['outcome', { outcome: DispositionOutcome.DONATE }],
    ['image', { images: ['y'] }],
  ])('with another %s is a new assessment', async (_, change) => {
    const { shopId, line } = bench.shopWithLines(1);
    const finding = { lineItemId: line, inspectedAt: at('2026-09-01T10:00:00Z'), note: 'worn' };
    await bench.assess(shopId, [finding]);
    await bench.assess(shopId, [{ ...finding, ...change }]);
    expect(bench.handedTo(shopId)).toHaveLength(2);
  });

  test('without a time, a minute later, is a new inspection', async () => {
    const { shopId, line } = bench.shopWithLines(1);
    await bench.assess(shopId, [{ lineItemId: line }]);
    await bench.db.pool.query(
      `update inspections set created_at = now() - interval '61 seconds' where shop_id = $1`,
      [shopId],
    );
    await bench.assess(shopId, [{ lineItemId: line }]);
    expect(bench.handedTo(shopId)).toHaveLength(2);
  });

  test('records only lines with different findings', async () => {
    const { shopId, lines } = bench.shopWithLines(2);
    const [kept = 0n, changed = 0n] = lines;
    await bench.assess(
      shopId,
      lines.map((lineItemId) => ({ lineItemId })),
    );
    await bench.assess(shopId, [{ lineItemId: kept }, { lineItemId: changed, note: 'torn' }]);
    const ids = bench.handedTo(shopId).map(({ lineItemId }) => lineItemId);
    expect(ids).toEqual([kept, changed, changed]);
  });
});

describe('inspect', () => {
  let returns: ServiceClient<typeof ReturnsService>;
  /** A process of its own, whose reads of pending inspections are counted. */
  let other: { readonly pool: pg.Pool; readonly reads: () => number };
  beforeAll(async () => {
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
});
