import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ReturnMethod } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { LabelProvider } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { startFakeBackend } from '../../../test/kit/gateway/fake-backend.ts';
import { startTestGateway, type TestGateway } from '../../../test/kit/gateway/test-gateway.ts';
import { ROOT } from '../../../test/kit/process.ts';
import { type ReturnsBench, startReturnsBench } from '../../../test/kit/services/returns-bench.ts';
import { actor } from '../../../test/kit/services/running-service.ts';
import { SERVICE_TOKEN } from '../../../test/kit/settings.ts';
import { formatOf } from './format.ts';
import { type ImportSummary, importReturns } from './run.ts';
import { targetOf } from './target.ts';

const HEADER = 'InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country';

describe('import', () => {
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

  test('rejects an invoice as a whole when one of its rows has an invisible character in its number', async () => {
    const rows = [row('A'), row('A\u200b'), row('B')];
    const { errors, rejected, imported } = await importing(await bench.shop(), rows);
    expect(errors).toEqual([{ line: 3, reason: expect.stringContaining('U+200B: remove it') }]);
    expect([rejected.rows, imported.rows]).toEqual([2, 1]);
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

describe('import -', () => {
  let under: TestGateway;
  let backend: Awaited<ReturnType<typeof startFakeBackend>>;
  let submitted: string[];

  beforeAll(async () => {
    under = await startTestGateway();
    backend = await startFakeBackend();
    submitted = [];
    Object.assign(backend.services.returns, {
      getSettings: () => ({ settings: { currency: 'GBP' } }),
      findReturn: () => {
        throw new ConnectError('there is no return', Code.NotFound);
      },
      submitReturn: ({ order }: { order?: { name: string } }) => {
        submitted.push(order?.name ?? '');
        return {};
      },
    });
  });
  afterAll(async () => {
    await backend.stop();
    await under.stop();
  });
  const CSV = `${HEADER}\nA,22631,HAT,-1,2010-12-01T14:33:00,1.95,12472,France\n`;

  /** Runs the command with this standard input, in an environment like that of a gateway's pod. */
  async function importing(input: string | Buffer, ...words: string[]) {
    const targets = Object.entries(backend.targets).map(([name, at]) => [
      `${name.toUpperCase()}_TARGET`,
      at,
    ]);
    const child = spawn(
      process.execPath,
      ['gateway/admin/import/main.ts', '--shop', '1', ...words],
      {
        cwd: ROOT,
        env: { ...Object.fromEntries(targets), DATABASE_URL: under.database.url, SERVICE_TOKEN },
      },
    );
    const ended = new Promise<number | null>((done) => {
      child.once('close', done);
    });
    // A command that exits early closes its input.
    child.stdin.on('error', () => {});
    child.stdin.end(input);
    const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
    return { code: await ended, stdout, stderr };
  }

  const LATIN = Buffer.from(`${HEADER}\nB,1,Caf\u00e9,-1,2010-12-01,1.95,,\n`, 'latin1');

  test('imports standard input', async () => {
    const sha256 = createHash('sha256').update(CSV).digest('hex');
    const { code, stdout } = await importing(CSV, '-', '--sha256', sha256.toUpperCase());
    expect([code, stdout]).toEqual([0, expect.stringContaining('imported  1 return, 1 row')]);
    expect(submitted).toEqual(['A']);
  });

  test('reads another encoding and other columns when they are named, and says how it read', async () => {
    const latin = await importing(LATIN, '-', '--encoding', 'cp1252');
    expect(latin).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('standard input: WINDOWS-1252, separated by commas'),
    });
    const other = CSV.replace('InvoiceNo', 'Invoice').replace('UnitPrice', 'Price');
    const map = 'gateway/admin/import/columns/online-retail-ii.json';
    expect(await importing(other, '-', '--columns', map)).toMatchObject({ code: 0 });
    submitted.splice(1);
  });

  test.each([
    ['without any input', '', ['-'], 'import: standard input is empty: end the command with'],
    ['with half a file', CSV, ['-', '--sha256', '0'.repeat(64)], 'or the connection broke'],
    ['with a short hash', CSV, ['-', '--sha256', 'abc'], 'must be 64 hexadecimal digits'],
    ['with a hash for a path', '', ['a.csv', '--sha256', '0'.repeat(64)], '--sha256 is only for'],
    ['of a folder', '', ['gateway'], 'import: gateway is not a file'],
    [
      'with bytes that are no UTF-8',
      LATIN,
      ['-'],
      'line 2: the bytes after "B,1,Caf" are no UTF-8',
    ],
    ['with an unknown encoding', CSV, ['-', '--encoding', 'ebcdic'], 'unknown encoding ebcdic'],
    ['with a map that is missing', CSV, ['-', '--columns', 'a.json'], 'there is no file a.json'],
    [
      'with a folder for a map',
      CSV,
      ['-', '--columns', 'gateway'],
      'gateway cannot be read (EISDIR',
    ],
    ['with a map that is none', CSV, ['-', '--columns', 'package.json'], 'package.json: '],
    ['of a file that is missing', '', ['a.csv'], 'import: there is no file a.csv'],
  ])('%s submits nothing and prints why', async (_, input, words, reason) => {
    const before = submitted.length;
    const { code, stderr } = await importing(input, ...words);
    expect([code, stderr]).toEqual([1, expect.stringContaining(reason)]);
    expect(submitted).toHaveLength(before);
  });
});
