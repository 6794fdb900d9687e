import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { text } from 'node:stream/consumers';
import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { startFakeBackend } from '../../../test/kit/gateway/fake-backend.ts';
import { startTestGateway, type TestGateway } from '../../../test/kit/gateway/test-gateway.ts';
import { ROOT } from '../../../test/kit/process.ts';
import { SERVICE_TOKEN } from '../../../test/kit/settings.ts';

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

const HEADER = 'InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country';
const CSV = `${HEADER}\nA,22631,HAT,-1,2010-12-01T14:33:00,1.95,12472,France\n`;

/** Runs the command with this standard input, in an environment like that of a gateway's pod. */
async function importing(input: string | Buffer, ...words: string[]) {
  const targets = Object.entries(backend.targets).map(([name, at]) => [
    `${name.toUpperCase()}_TARGET`,
    at,
  ]);
  const child = spawn(process.execPath, ['gateway/admin/import/main.ts', '--shop', '1', ...words], {
    cwd: ROOT,
    env: { ...Object.fromEntries(targets), DATABASE_URL: under.database.url, SERVICE_TOKEN },
  });
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

describe('import -', () => {
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
