import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  CustomerUpload_Kind,
  DispositionOutcome,
  type Return,
  ReturnSchema,
} from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { LabelProvider } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { line } from '../../test/kit/builders.ts';
import {
  firstLine,
  invalid,
  type ReturnsBench,
  startReturnsBench,
  stateForbids,
} from '../../test/kit/services/returns-bench.ts';
import { actor, refusal } from '../../test/kit/services/running-service.ts';
import { makeLarge, statementsDuring } from './store/testing/large-returns.ts';

let bench: ReturnsBench;
beforeAll(async () => {
  bench = await startReturnsBench();
});
afterAll(() => bench.stop());

const customer = {
  email: 'Gone@Example.com',
  firstName: 'Greta',
  lastName: 'Gone',
  address: { name: 'Greta Gone', address1: '1 Gone Street' },
};
const redact = (shopId: bigint, email = 'gone@example.COM') =>
  bench.client.redactCustomer({ shopId, actor, email });

describe('redact customer', () => {
  test('removes a shopper from all returns, and publishes it in the order of their events', async () => {
    const shopId = await bench.shop();
    const one = await bench.submit(shopId, { customer });
    const other = await bench.submit(shopId, { customer });
    const otherCustomer = await bench.submit(shopId, { customer: { email: 'else@example.com' } });
    await bench.client.addCustomerUpload({
      shopId,
      actor,
      lineItemId: firstLine(one),
      kind: CustomerUpload_Kind.IMAGE,
      url: 'https://x.example/face.png',
    });

    expect(await redact(shopId)).toMatchObject({ returns: 2, uploads: 1 });
    for (const redacted of [one, other]) {
      const after = await bench.read(redacted);
      expect(after.customer).toMatchObject({});
      expect(JSON.stringify(after.customer)).not.toMatch(/gone/i);
      expect(after.lineItems[0]?.uploads).toEqual([]);
      expect((await bench.triggers(redacted)).slice(-2)).toEqual([
        'return.updated',
        'customer.redacted',
      ]);
    }
    const published = (await bench.events(shopId)).filter(
      (one) => one.trigger === 'customer.redacted',
    );
    expect(published.map((event) => event.detail.value)).toMatchObject([
      { returnIds: [one.id] },
      { returnIds: [other.id] },
    ]);
    expect(await bench.read(otherCustomer)).toEqual(otherCustomer);
    expect(await redact(shopId)).toMatchObject({ returns: 0, uploads: 0 });
  });

  test('leaves no data of the shopper in any table except the events of the last days', async () => {
    const shopId = await bench.shop({ labelProvider: LabelProvider.THIRD_PARTY });
    const submitted = await bench.submit(shopId, {
      customer,
      lines: Array.from({ length: 15 }, () => line()),
    });
    await bench.client.addCustomerUpload({
      shopId,
      actor,
      lineItemId: firstLine(submitted),
      kind: CustomerUpload_Kind.IMAGE,
      url: 'https://x.example/greta.png',
    });
    await bench.client.applyAssessments({
      shopId,
      actor,
      assessments: submitted.lineItems.map(({ lineItemId }) => ({
        lineItemId,
        assessmentId: 1n,
        disposition: { outcome: DispositionOutcome.DONATE, note: 'n'.repeat(65_535) },
      })),
    });
    await redact(shopId);
    for (const table of await tables()) {
      const { rows } = await bench.db.pool.query<{ row: string }>(
        `select t::text as row from ${table} t`,
      );
      const kept = rows.map((one) => readable(one.row)).join('\n');
      expect(`${table}: ${/greta|gone@|gone street/i.exec(kept)?.[0]}`).toBe(`${table}: undefined`);
    }
  });

  test('rejects uploads to a redacted return', async () => {
    const shopId = await bench.shop();
    const submitted = await bench.submit(shopId, { customer });
    await redact(shopId);
    const upload = bench.client.addCustomerUpload({
      shopId,
      actor,
      lineItemId: firstLine(submitted),
      kind: CustomerUpload_Kind.IMAGE,
      url: 'https://x.example/face.png',
    });
    expect(await refusal(upload)).toEqual(stateForbids);
    expect((await bench.read(submitted)).lineItems[0]?.uploads).toEqual([]);
  });

  test('does not touch another shop’s returns', async () => {
    const [shopId, otherShop] = [await bench.shop(), await bench.shop()];
    await bench.submit(shopId, { customer });
    const foreign = await bench.submit(otherShop, { customer });
    await redact(shopId);
    expect(await bench.read(foreign)).toEqual(foreign);
    expect(await refusal(redact(shopId, ' '))).toEqual(invalid('email'));
  });

  test('clears large snapshots, with one in memory at a time', async () => {
    const shopId = await bench.shop();
    await addSnapshots(await bench.submit(shopId, { customer }), [101, 102, 103]);
    await addSnapshots(await bench.submit(shopId), [101, 102, 103]);
    const statements = await statementsDuring(() => redact(shopId));
    const held = statements.map(({ rows }) => rows.filter((row) => 'value' in row).length);
    expect(Math.max(...held)).toBe(1);
    expect(await cleared(shopId)).toEqual([true, true, true, false, false, false]);
  });

  test('redacts fewer returns at a time when they are large', async () => {
    const shopId = await bench.shop();
    for (let n = 0; n < 3; n++) {
      await makeLarge(bench.db.pool, await bench.submit(shopId, { customer }));
    }
    await bench.submit(shopId, { customer });
    const statements = await statementsDuring(async () => {
      expect(await redact(shopId)).toMatchObject({ returns: 4, uploads: 7_500 });
    });
    const locked = statements.filter(({ text }) => /from returns .* for update/.test(text));
    // The first transaction runs again with a permit, which the call keeps for the others.
    expect(locked.map(({ rows }) => rows.length)).toEqual([1, 1, 1, 2]);
  }, 60_000);

  test('redacts more returns than fit into one transaction', async () => {
    const shopId = await bench.shop();
    const submittedAt = timestampFromDate(new Date('2026-01-01T00:00:00Z'));
    for (let n = 0; n < 6; n++) {
      await Promise.all(
        Array.from({ length: 10 }, () => bench.submit(shopId, { customer, submittedAt })),
      );
    }
    expect((await redact(shopId)).returns).toBe(60);
  });
});

async function tables(): Promise<string[]> {
  const { rows } = await bench.db.pool.query<{ table_name: string }>(
    `select table_name from information_schema.tables
      where table_schema = 'returns' and table_name not like 'events%' and table_type = 'BASE TABLE'`,
  );
  return rows.map((row) => row.table_name);
}

/** The bytes in a row as text. PostgreSQL writes them in hexadecimal. */
function readable(row: string): string {
  return row.replace(/\\\\?x([0-9a-f]+)/g, (_, hex) => Buffer.from(hex, 'hex').toString('latin1'));
}

async function addSnapshots(of: Return, revisions: readonly number[]): Promise<void> {
  const uploads = [{ url: 'https://x.example/face.png' }];
  const value = toBinary(
    ReturnSchema,
    create(ReturnSchema, { id: of.id, customer, lineItems: [{ uploads }] }),
  );
  await bench.db.pool.query(
    `insert into snapshots (shop_id, return_id, revision, value)
     select $1, $2, revision, $4 from unnest($3::bigint[]) revision`,
    [of.shopId, of.id, revisions, value],
  );
}

/** Whether the shopper was removed from each stored snapshot of a shop, by return and revision. */
async function cleared(shopId: bigint): Promise<boolean[]> {
  const { rows } = await bench.db.pool.query<{ value: Uint8Array }>(
    'select value from snapshots where shop_id = $1 order by return_id, revision',
    [shopId],
  );
  return rows.map(({ value }) => {
    const { customer: kept, lineItems } = fromBinary(ReturnSchema, value);
    return kept === undefined && lineItems.every(({ uploads }) => uploads.length === 0);
  });
}
