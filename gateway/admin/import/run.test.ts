import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ReturnMethod } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { LabelProvider } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { line, newId, returnRequest } from '../../../test/kit/builders.ts';
import { type ReturnsBench, startReturnsBench } from '../../../test/kit/services/returns-bench.ts';
import { actor } from '../../../test/kit/services/running-service.ts';
import { formatOf, USUAL_COLUMNS } from './format.ts';
import { type ImportSummary, importReturns } from './run.ts';
import { mapInvoice } from './submission.ts';
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
async function importing(
  shopId: bigint,
  rows: readonly string[],
  requireUnchanged = async () => {},
): Promise<ImportSummary> {
  const file = join(folder, `${shopId}.csv`);
  await writeFile(file, [HEADER, ...rows, ''].join('\n'));
  const returns = bench.client;
  const target = await targetOf(returns, { shopId, actor });
  const format = await formatOf(file);
  return importReturns(file, target, { returns, format, progress: () => {}, requireUnchanged });
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
      corrected: { returns: 0, rows: 0 },
      rejected: { returns: 1, rows: 4 },
      errorCount: 3,
      errors: [2, 4, 6].map((line) => ({ line, reason })),
    });
    const { returns } = await bench.client.searchReturns({ shopId, actor });
    expect(returns.map((one) => one.order?.name).sort()).toEqual(['B', 'C']);
  });

  test('imports an invoice once, in whatever spelling its number and SKU are', async () => {
    const shopId = await bench.shop();
    const of = (invoice: string, sku: string) => row(invoice).replace('22631', sku);
    const spelled = [
      of('CAF\u00c9', 'x\u00e9'),
      of(' CAFE\u0301', 'xe\u0301'),
      of('CAF\u00c9\u00a0', ' x\u00e9 '),
    ];
    const results = [];
    for (const one of spelled) results.push(await importing(shopId, [one]));
    expect(results.map(({ imported, skipped }) => [imported.returns, skipped.returns])).toEqual([
      [1, 0],
      [0, 1],
      [0, 1],
    ]);
    const { returns } = await bench.client.searchReturns({ shopId, actor });
    expect(returns.map((one) => one.order?.name)).toEqual(['CAF\u00c9']);
    expect(await importing(shopId, [spelled[1] ?? '', spelled[2] ?? ''])).toMatchObject({
      imported: { returns: 0 },
      rejected: { returns: 1, rows: 2 },
    });
  });

  /** Submits the invoice ` A` as an earlier release did: under its number as it is in the file. */
  async function importedEarlier(): Promise<bigint> {
    const shopId = await bench.shop();
    const target = await targetOf(bench.client, { shopId, actor });
    const cells = { InvoiceNo: ' A', StockCode: '22631', Description: 'HAT', Quantity: '-1' };
    const more = { InvoiceDate: '2010-12-01T14:33:00', UnitPrice: '1.95', CustomerID: '12472' };
    const old = { ...cells, ...more, Country: 'France', line: 2, isWhole: true };
    const invoice = { number: ' A', rows: [old], size: 1, bytesRead: 0 };
    const mapped = mapInvoice(invoice, target, USUAL_COLUMNS);
    if ('errors' in mapped) throw new Error('the row is invalid');
    await bench.client.submitReturn(mapped.submission);
    return shopId;
  }

  test('finds a return that an earlier release imported under another spelling', async () => {
    const shopId = await importedEarlier();
    expect(await importing(shopId, [row('A')])).toMatchObject({
      imported: { returns: 0 },
      skipped: { returns: 1 },
    });
  });

  test('finds such a return although the order has a newer one, which is no import', async () => {
    const shopId = await importedEarlier();
    const order = { providerOrderId: newId(), name: 'A' };
    await bench.client.submitReturn(returnRequest(shopId, { order, lines: [line()] }));
    expect(await importing(shopId, [row('A')])).toMatchObject({
      imported: { returns: 0 },
      skipped: { returns: 1 },
    });
  });

  test('corrects texts of returns that exist, and counts them', async () => {
    const shopId = await bench.shop();
    const rows = [row('A').replace('HAT', 'Caf\ufffd'), row('A'), row('B')];
    await importing(shopId, rows);
    const corrected = [rows[0]?.replace('Caf\ufffd', 'Caf\u00e9') ?? '', ...rows.slice(1)];
    expect(await importing(shopId, corrected)).toMatchObject({
      imported: { returns: 0 },
      skipped: { returns: 1, rows: 1 },
      corrected: { returns: 1, rows: 2 },
      rejected: { returns: 0 },
    });
    const { returns } = await bench.client.searchReturns({ shopId, actor });
    const titles = returns.map((one) => one.lineItems.map(({ title }) => title));
    expect(titles.sort()).toEqual([['Caf\u00e9', 'HAT'], ['HAT']]);
    expect(await importing(shopId, corrected)).toMatchObject({ skipped: { returns: 2 } });
    expect(await triggers(shopId)).toEqual(['return.created', 'return.created', 'return.updated']);
  });

  test('refuses changed amounts and identities, with the line of each, and corrects no text then', async () => {
    const shopId = await bench.shop();
    const rows = [row('A'), row('A'), row('A')];
    await importing(shopId, rows);
    const changed = [
      row('A').replace('HAT', 'CAP'),
      row('A').replace('1.95', '9.95'),
      row('A').replace('22631', '22632').replace(',-1,', ',-2,'),
    ];
    const { errors, rejected } = await importing(shopId, changed);
    expect(rejected).toEqual({ returns: 1, rows: 3 });
    const reason = (what: string) =>
      `A was imported before with other rows: ${what} differs; only texts can be corrected`;
    expect(errors).toEqual([
      { line: 3, reason: reason('UnitPrice') },
      { line: 4, reason: reason('StockCode') },
      { line: 4, reason: reason('Quantity') },
      { line: 4, reason: reason('UnitPrice') },
    ]);
    const { returns } = await bench.client.searchReturns({ shopId, actor });
    expect(returns[0]?.lineItems.map(({ title }) => title)).toEqual(['HAT', 'HAT', 'HAT']);
  });

  test('imports nothing that it read after the file changed, because an amount may be incomplete', async () => {
    const shopId = await bench.shop();
    const states = [undefined, undefined, new Error('the file changed')];
    const changed = importing(shopId, [row('A'), row('B'), row('C').slice(0, -9)], async () => {
      const error = states.shift();
      if (error) throw error;
    });
    await expect(changed).rejects.toThrow('the file changed');
    const { returns } = await bench.client.searchReturns({ shopId, actor });
    expect(returns.map((one) => one.order?.name).sort()).toEqual(['A', 'B']);
  });

  test('imports nothing of a file that changed while it was checked', async () => {
    const shopId = await bench.shop();
    const changed = importing(shopId, [row('A')], async () => {
      throw new Error('the file changed');
    });
    await expect(changed).rejects.toThrow('the file changed');
    expect(await triggers(shopId)).toEqual([]);
  });

  test('names the line and the column of a value that the service rejects', async () => {
    const long = 'x'.repeat(300);
    const { errors } = await importing(await bench.shop(), [
      ...[row('A'), row('A').replace('HAT', long)],
      ...[row('B'), row('B').replace('22631', long)],
      row(long),
      row('C').replace('2010-12', '2110-12'),
    ]);
    expect(errors).toEqual([
      { line: 3, reason: 'Description must be at most 191 characters' },
      { line: 5, reason: 'StockCode must be at most 191 characters' },
      { line: 6, reason: 'InvoiceNo must be at most 200 characters' },
      { line: 7, reason: 'InvoiceDate must not be in the future' },
    ]);
  });

  test('rejects rows without an invoice number, and the invoice before, which may lack them', async () => {
    const rows = [row(''), row('B'), row('C'), row(' '), row('')];
    const { errors, rejected, imported } = await importing(await bench.shop(), rows);
    expect(errors).toMatchObject([
      { line: 2, reason: 'InvoiceNo is empty' },
      { line: 4, reason: expect.stringContaining('C is followed by a row without InvoiceNo') },
      { line: 5, reason: 'InvoiceNo is empty' },
      { line: 6, reason: 'InvoiceNo is empty' },
    ]);
    expect([rejected.rows, imported.rows]).toEqual([4, 1]);
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
