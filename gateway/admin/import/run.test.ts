import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ReturnMethod } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { LabelProvider } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { type ReturnsBench, startReturnsBench } from '../../../test/kit/services/returns-bench.ts';
import { actor } from '../../../test/kit/services/running-service.ts';
import { type ImportSummary, importReturns } from './run.ts';
import { targetOf } from './target.ts';

let bench: ReturnsBench;
let folder: string;
beforeAll(async () => {
  bench = await startReturnsBench();
  folder = await mkdtemp(join(tmpdir(), 'rms-import-'));
});
afterAll(async () => {
  await rm(folder, { recursive: true });
  await bench.stop();
});

const HEADER = 'InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country';

const row = (invoice: string) => `${invoice},22631,HAT,-1,2010-12-01T14:33:00,1.95,12472,France`;

/** Imports rows into a shop, as the command does. */
async function importing(shopId: bigint, rows: readonly string[]): Promise<ImportSummary> {
  const file = join(folder, `${shopId}.csv`);
  await writeFile(file, [HEADER, ...rows, ''].join('\n'));
  const returns = bench.client;
  const target = await targetOf(returns, { shopId, actor });
  return importReturns(file, target, { returns, progress: () => {} });
}

const triggers = async (shopId: bigint) =>
  (await bench.events(shopId)).map((event) => event.trigger);

describe('import', () => {
  test('submits a return for each invoice, and skips it when run again', async () => {
    const shopId = await bench.shop();
    const rows = [row('A'), row('A'), row('B')];
    expect(await importing(shopId, rows)).toMatchObject({ imported: { returns: 2, rows: 3 } });
    expect(await importing(shopId, rows)).toMatchObject({
      imported: { returns: 0 },
      skipped: { returns: 2, rows: 3 },
    });
    const { returns } = await bench.client.searchReturns({ shopId, actor });
    expect(returns.map((one) => one.returnMethod)).toEqual([ReturnMethod.MAIL, ReturnMethod.MAIL]);
  });

  test('requests no labels, even if a third party makes the labels of the shop', async () => {
    const shopId = await bench.shop({ labelProvider: LabelProvider.THIRD_PARTY });
    expect(await importing(shopId, [row('A')])).toMatchObject({ imported: { returns: 1 } });
    expect(await triggers(shopId)).toEqual(['return.created']);
    const { returns } = await bench.client.searchReturns({ shopId, actor });
    expect(returns[0]?.returnMethod).toBe(ReturnMethod.DROP_OFF);
  });

  test.each([
    [LabelProvider.OWN, LabelProvider.THIRD_PARTY],
    [LabelProvider.THIRD_PARTY, LabelProvider.OWN],
  ])('skips existing returns after the label provider changed (%s to %s)', async (first, then) => {
    const shopId = await bench.shop({ labelProvider: first });
    await importing(shopId, [row('A')]);
    await bench.client.updateSettings({ shopId, actor, settings: { labelProvider: then } });
    expect(await importing(shopId, [row('A'), row('B')])).toMatchObject({
      imported: { returns: 1 },
      skipped: { returns: 1 },
      rejected: { returns: 0 },
    });
    expect(await importing(shopId, [row('A'), row('A')])).toMatchObject({
      rejected: { returns: 1, rows: 2 },
      errors: [{ line: 2, reason: expect.stringContaining('imported before with other rows') }],
    });
  });

  test('rejects an invoice whose rows are not adjacent', async () => {
    const shopId = await bench.shop();
    const rows = [row('A'), row('B'), row('A'), row('C'), row('A'), row('A')];
    const reason = 'A has rows elsewhere in the file too: rows of one invoice must be adjacent';
    expect(await importing(shopId, rows)).toEqual({
      imported: { returns: 2, rows: 2 },
      skipped: { returns: 0, rows: 0 },
      rejected: { returns: 1, rows: 4 },
      errorCount: 3,
      errors: [2, 4, 6].map((line) => ({ line, reason })),
    });
    const { returns } = await bench.client.searchReturns({ shopId, actor });
    expect(returns.map((one) => one.order?.name).sort()).toEqual(['B', 'C']);
  });

  test('reports rows without an invoice number', async () => {
    const { errors, rejected } = await importing(await bench.shop(), [row(''), row('B'), row('')]);
    expect(errors).toMatchObject([
      { line: 2, reason: 'InvoiceNo is empty' },
      { line: 4, reason: 'InvoiceNo is empty' },
    ]);
    expect(rejected.rows).toBe(2);
  });

  test('imports nothing from a file that cannot be read to its end', async () => {
    const shopId = await bench.shop();
    const broken = importing(shopId, [row('A'), row('B'), 'C,"22631']);
    await expect(broken).rejects.toThrow(/line 4/);
    expect(await triggers(shopId)).toEqual([]);
  });

  test('rejects a file in another currency than the shop’s', async () => {
    const call = { shopId: await bench.shop(), actor };
    await expect(targetOf(bench.client, call, 'eur')).rejects.toThrow(
      `the file is in EUR and shop ${call.shopId} in GBP: amounts are never converted`,
    );
  });
});
