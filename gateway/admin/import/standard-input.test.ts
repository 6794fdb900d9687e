import { createHash } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { describe, expect, test } from '@jest/globals';
import { formatOf } from './format.ts';
import { findIncomplete, readInvoices } from './rows.ts';
import { storeInput } from './standard-input.ts';

const HEADER = 'InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country';
const TEXT = `${HEADER}\nA,1,"x\ny",-1,d,1,,UK\nB,2,,-1,d,1,,UK\nA,3,,-1,d,1,,UK\n`;

/** Splits a text into chunks that may end within a cell, as chunks of a pipe do. */
async function* chunks(text: string, size = 7): AsyncGenerator<Uint8Array> {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

const storedFiles = async () =>
  (await readdir(tmpdir())).filter((name) => name.startsWith('rms-import-stdin-'));

describe('standard input', () => {
  test('can be read twice, as an import does, and leaves no file behind', async () => {
    const before = await storedFiles();
    const { source, size } = await storeInput(chunks(TEXT));
    try {
      expect(await storedFiles()).toEqual(before);
      expect(size).toBe(TEXT.length);
      expect([...(await findIncomplete(source, await formatOf(source))).keys()]).toEqual(['A']);
      const lines: number[] = [];
      for await (const { rows } of readInvoices(source, await formatOf(source)))
        lines.push(...rows.map(({ line }) => line));
      expect(lines).toEqual([3, 4, 5]);
    } finally {
      await source.close();
    }
  });

  test('is rejected when it is empty', async () => {
    await expect(storeInput(chunks(''))).rejects.toThrow('`kubectl exec` its option -i');
  });

  test('is rejected above the limit, and the rest is not read', async () => {
    async function* endless() {
      for (;;) yield Buffer.alloc(1_024);
    }
    await expect(storeInput(endless(), { maxBytes: 65_536 })).rejects.toThrow(
      'more than 65536 bytes: split the file where an invoice ends',
    );
  });

  test('that ends early is rejected if the hash of the whole file is stated', async () => {
    const sha256 = createHash('sha256').update(TEXT).digest('hex');
    const cut = TEXT.slice(0, TEXT.lastIndexOf('\nA,3') + 1);
    await expect(storeInput(chunks(cut), { sha256 })).rejects.toThrow('the connection broke');
    const { source } = await storeInput(chunks(TEXT), { sha256 });
    await source.close();
  });
});
