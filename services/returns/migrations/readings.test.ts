import { cpSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type pg from 'pg';
import { createEmptyDatabase } from '../../../test/kit/database.ts';
import { migrate } from '../../platform/migrate.ts';
import { createPool } from '../../platform/postgres.ts';
import { SCHEMAS } from '../../platform/schemas.ts';
import { loadReturn } from '../store/load.ts';

// How 0010_readings migrates returns of the release in which shipping did not include its tax.

const SHOP = 7n;
const HERE = fileURLToPath(new URL('.', import.meta.url));
const NEW = '0010_readings.sql';

interface OldLine {
  readonly shipping: number;
  readonly tax: number;
}

let database: Awaited<ReturnType<typeof createEmptyDatabase>>;
let folder: string;
let pool: pg.Pool;

async function bring(files: readonly string[]): Promise<void> {
  for (const file of files) cpSync(join(HERE, file), join(folder, file));
  const schema = SCHEMAS.find(({ name }) => name === 'returns');
  if (!schema) throw new Error('there is no schema of returns');
  const schemas = [{ ...schema, folder: pathToFileURL(`${folder}/`) }];
  await migrate({ databaseUrl: database.url, schemas });
}

function migrations(): string[] {
  return readdirSync(HERE).filter((file) => file.endsWith('.sql'));
}

beforeAll(async () => {
  database = await createEmptyDatabase();
  folder = mkdtempSync(join(tmpdir(), 'returns-'));
  await bring(migrations().filter((file) => file < NEW));
  pool = createPool(database.url);
  await pool.query('set search_path to returns');
});

afterAll(async () => {
  await pool?.end();
  rmSync(folder, { recursive: true });
  await database.drop();
});

/**
 * A return with lines of 10.00 each, as the previous release stored it; `given` is the refunded shipping of the whole return.
 */
async function insertOld(lines: readonly OldLine[], given?: OldLine): Promise<bigint> {
  const followed = {
    shipping: lines.reduce((sum, line) => sum + line.shipping + line.tax, 0),
    tax: lines.reduce((sum, line) => sum + line.tax, 0),
  };
  const { shipping, tax } = given ?? followed;
  const goods = 10 * lines.length;
  const { rows } = await pool.query<{ id: bigint }>(
    `with ordered as (
       insert into returns.orders (shop_id, provider_order_id)
       values ($1, (select count(*) + 1 from returns.orders)) returning id)
     insert into returns.returns (shop_id, created_at, order_id, order_name, state, type, outcome,
       return_method, currency, presentment_currency, return_total, shipping, shipping_tax,
       credit_shipping, return_credit, handling_fee, refund, presentment_return_total,
       presentment_shipping, presentment_shipping_tax, presentment_credit_shipping,
       presentment_return_credit, presentment_handling_fee, presentment_refund, shipping_given)
     select $1, now(), id, '#1', 'open', 'standard', 'refund', 'mail', 'GBP', 'GBP',
       $2::numeric, $3::numeric, $4::numeric, 0, 0, 0, $2::numeric + $3::numeric,
       $2, $3, $4, 0, 0, 0, $2::numeric + $3::numeric, $5
     from ordered returning id`,
    [SHOP, goods, shipping, tax, given !== undefined],
  );
  const id = rows[0]?.id ?? 0n;
  for (const [position, line] of lines.entries()) {
    await pool.query(
      `insert into returns.return_lines (shop_id, return_id, position, provider_line_item_id, quantity,
         price, discount, tax, refund_item, refund_tax, refund_shipping, refund_shipping_tax,
         presentment_price, presentment_discount, presentment_tax, presentment_refund_item,
         presentment_refund_tax, presentment_refund_shipping, presentment_refund_shipping_tax, outcome)
       values ($1, $2::bigint, $3::integer, $2::bigint * 10 + $3::integer, 1,
         10, 0, 0, 10, 0, $4, $5, 10, 0, 0, 10, 0, $4, $5, 'refund')`,
      [SHOP, id, position, line.shipping, line.tax],
    );
  }
  return id;
}

async function amountsOf(id: bigint) {
  const service = new URL(database.url);
  service.username = 'rms_returns';
  const own = createPool(service.href);
  try {
    const found = await loadReturn(own, SHOP, id);
    const { refund, returnShippingTotal, returnShippingTaxTotal } = { ...found?.totals };
    const lines = found?.lineItems.map(({ amounts }) => [
      amounts?.refundShipping,
      amounts?.refundShippingTax,
    ]);
    expect(found?.presentmentTotals).toEqual(found?.totals);
    return { refund, shipping: [returnShippingTotal, returnShippingTaxTotal], lines };
  } finally {
    await own.end();
  }
}

test('no refund changes; shipping includes its tax, and is the total of the line items', async () => {
  const two = [
    { shipping: 3, tax: 0.5 },
    { shipping: 1, tax: 0 },
  ];
  const [followed, more, less, none] = [
    await insertOld(two),
    await insertOld(two, { shipping: 7, tax: 2 }),
    await insertOld(two, { shipping: 3, tax: 0 }),
    await insertOld([{ shipping: 0, tax: 0.5 }], { shipping: 0, tax: 0 }),
  ];
  // Run all later migrations too, because the code reads columns that they add.
  await bring(migrations().filter((file) => file >= NEW));
  expect(await amountsOf(followed)).toEqual({
    refund: '24.50',
    shipping: ['4.50', '0.50'],
    lines: [
      ['3.50', '0.50'],
      ['1.00', '0.00'],
    ],
  });
  expect(await amountsOf(more)).toEqual({
    refund: '27.00',
    shipping: ['7.00', '0.50'],
    lines: [
      ['6.00', '0.50'],
      ['1.00', '0.00'],
    ],
  });
  expect(await amountsOf(less)).toEqual({
    refund: '23.00',
    shipping: ['3.00', '0.50'],
    lines: [
      ['3.00', '0.50'],
      ['0.00', '0.00'],
    ],
  });
  expect(await amountsOf(none)).toEqual({
    refund: '10.00',
    shipping: ['0.00', '0.00'],
    lines: [['0.00', '0.00']],
  });
});
