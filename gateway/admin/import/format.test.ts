import { createHash } from 'node:crypto';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ROOT } from '../../../test/kit/process.ts';
import { describeFormat, formatOf, readColumnMap } from './format.ts';
import { findIncomplete, type Invoice, readInvoices } from './rows.ts';
import { storeInput } from './source.ts';
import { type DateForm, isoDate, timeInZone } from './time-in-zone.ts';

const HEADER = 'InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country';

describe('the format of a file', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'rms-import-'));
  });
  afterAll(() => rm(folder, { recursive: true }));
  const TEXT = `${HEADER}\nA,1,Caf\u00e9 \u20ac5,-1,2011-03-01,2.55,17850,C\u00f4te\nB,2,x,-2,2011-03-01,1,,UK\n`;

  /** Reads bytes as the command does: checks the whole file, then reads its invoices. */
  async function read(bytes: string | Buffer, o: { map?: string; encoding?: string } = {}) {
    const file = join(folder, 'file.csv');
    await writeFile(file, bytes);
    const map = o.map === undefined ? undefined : await readColumnMap(o.map);
    const format = await formatOf(file, map, o.encoding);
    await findIncomplete(file, format);
    const invoices: Invoice[] = [];
    for await (const one of readInvoices(file, format)) invoices.push(one);
    return { how: describeFormat(format), rows: invoices.flatMap(({ rows }) => rows) };
  }

  const utf16 = (text: string) => Buffer.from(text, 'utf16le');
  /** The text in Windows-1252, whose euro sign is not in Latin 1. */
  const windows = (text: string) =>
    Buffer.from(
      [...text].map((character) => (character === '\u20ac' ? 0x80 : character.charCodeAt(0))),
    );

  describe('the encoding of a file', () => {
    test.each<[string, string | Buffer, string, string | undefined]>([
      ['UTF-8', TEXT, 'UTF-8', undefined],
      ['UTF-8 with a mark', `\ufeff${TEXT}`, 'UTF-8', undefined],
      ['UTF-16LE with a mark', utf16(`\ufeff${TEXT}`), 'UTF-16LE', undefined],
      ['UTF-16BE with a mark', utf16(`\ufeff${TEXT}`).swap16(), 'UTF-16BE', undefined],
      ['UTF-16LE', utf16(TEXT), 'UTF-16LE', undefined],
      ['UTF-16BE', utf16(TEXT).swap16(), 'UTF-16BE', undefined],
      ['Windows-1252', windows(TEXT), 'WINDOWS-1252', 'windows-1252'],
    ])('%s is read, and named', async (_, bytes, how, encoding) => {
      const { how: description, rows } = await read(bytes, { ...(encoding && { encoding }) });
      expect(description).toBe(`${how}, separated by commas`);
      expect(rows).toMatchObject([
        { InvoiceNo: 'A', Description: 'Caf\u00e9 \u20ac5', Country: 'C\u00f4te', line: 2 },
        { InvoiceNo: 'B', line: 3 },
      ]);
    });

    test('is strict: bytes that are no UTF-8 are named with their line, wherever they are', async () => {
      const filler = 'B,2,x,-2,2011-03-01,1,,UK\n'.repeat(10_000);
      const file = Buffer.concat([
        Buffer.from(`${HEADER}\n${filler}`),
        windows('A,1,Caf\u00e9,\n'),
      ]);
      await expect(read(file)).rejects.toThrow(
        'line 10002: the bytes after "A,1,Caf" are no UTF-8: save the file as CSV UTF-8, or name its encoding, such as --encoding windows-1252',
      );
      const bytes = Buffer.from(TEXT);
      await expect(read(bytes.subarray(0, bytes.indexOf(0xc3) + 1))).rejects.toThrow(
        'ends within a character',
      );
    });

    test.each<[string, string | Buffer, string, string]>([
      ['UTF-8 called Windows-1252', TEXT, 'windows-1252', 'the file is UTF-8, not windows-1252'],
      ['a mark against the option', `\ufeff${TEXT}`, 'windows-1252', 'leave out --encoding'],
      ['bytes of no character', Buffer.from([...windows(TEXT), 0x81]), 'windows-1252', 'line 4'],
      ['UTF-16 called UTF-8', utf16(TEXT), 'utf-8', 'are no UTF-8'],
    ])('is not %s', async (_, bytes, encoding, why) => {
      await expect(read(bytes, { encoding })).rejects.toThrow(why);
    });

    test.each([
      ['a ZIP file, such as .xlsx', Buffer.from('PK\u0003\u0004\u0014\0')],
      ['an Excel file (.xls)', Buffer.from('d0cf11e0a1b11ae1', 'hex')],
      ['a compressed file', gzipSync(TEXT)],
    ])('of %s is none, and the message says what to do', async (what, bytes) => {
      await expect(read(bytes)).rejects.toThrow(`the file is ${what}`);
      await expect(read(bytes)).rejects.toThrow('save it as CSV UTF-8');
    });
  });

  describe('the separator of a file', () => {
    const quoted = TEXT.replace(/^(.*)$/gm, (line) => line && `"${line.replaceAll(',', '";"')}"`);
    test.each([
      ['semicolons', TEXT.replaceAll(',', ';'), 'semicolons'],
      ['tabs', TEXT.replaceAll(',', '\t'), 'tabs'],
      ['bars', TEXT.replaceAll(',', '|'), 'bars'],
      ['quoted semicolons', quoted, 'semicolons'],
      [
        'a line sep=;',
        `sep=;\r\n${TEXT.replaceAll(',', ';').replaceAll('\n', '\r\n')}`,
        'semicolons',
      ],
      ['a line sep=,', `sep=,\n${TEXT}`, 'commas'],
      ['separators at the end', TEXT.replaceAll(/$/gm, ','), 'commas'],
      ['another case and spaces', TEXT.replace('InvoiceNo', ' invoice no '), 'commas'],
      ['rows without values', TEXT.replace('B,2', ',,,,,,,\nB,2'), 'commas'],
    ])('%s: found and named', async (_, text, named) => {
      const { how, rows } = await read(text);
      expect(how).toBe(`UTF-8, separated by ${named}`);
      expect(rows.map(({ InvoiceNo, Country, isWhole }) => [InvoiceNo, Country, isWhole])).toEqual([
        ['A', 'C\u00f4te', true],
        ['B', 'UK', true],
      ]);
    });
  });

  describe('the columns of a file', () => {
    test('are rejected when one is there twice, with both positions', async () => {
      const twice = TEXT.replace('Country', 'Country,stock code');
      await expect(read(twice)).rejects.toThrow(
        'line 1: the column StockCode is there twice, as columns 2 and 9: remove one of them, or rename it',
      );
      expect((await read(TEXT.replace('Country', 'Country,X,X'))).rows).toHaveLength(2);
    });

    test.each([
      ['no JSON', '{', 'is no JSON'],
      ['an unknown column', '{"columns":{"Sku":"x"}}', 'Sku'],
      ['an unknown time zone', '{"zone":"Berlin"}', 'must be a time zone such as Europe/Berlin'],
      ['an unknown rule', '{"decimals":","}', 'decimals'],
    ])('are not mapped by %s', async (_, json, why) => {
      const map = join(folder, 'map.json');
      await writeFile(map, json);
      await expect(read(TEXT, { map })).rejects.toThrow(why);
    });

    test('may be mapped by a file with a byte-order mark, as Windows writes it', async () => {
      const map = join(folder, 'map.json');
      await writeFile(map, '\ufeff{"columns":{"StockCode":"Sku"}}');
      expect((await read(TEXT.replace('StockCode', 'SKU'), { map })).rows).toHaveLength(2);
    });

    const shipped = (name: string) => join(ROOT, `gateway/admin/import/columns/${name}.json`);

    test('of Online Retail are read as Excel saves it', async () => {
      const text = `${HEADER.replaceAll(',', ';')}\r\nC1;22;Caf\u00e9;-1;01/12/2010 14:33;1.002,55;17850;EIRE\r\n`;
      const { how, rows } = await read(windows(text), { map: shipped('online-retail-excel') });
      expect(how).toBe('WINDOWS-1252, separated by semicolons');
      expect(rows).toMatchObject([{ Description: 'Caf\u00e9', UnitPrice: '1.002,55' }]);
      const american = text.replace('01/12/2010', '12/31/2010');
      await expect(
        read(windows(american), { map: shipped('online-retail-excel') }),
      ).rejects.toThrow(
        'line 2: InvoiceDate "12/31/2010 14:33" is no date dd/mm/yyyy: the file of --columns needs "dates": "mm/dd/yyyy"',
      );
      const marked = await read(`\ufeff${text}`, { map: shipped('online-retail-excel') });
      expect(marked.how).toBe('UTF-8, separated by semicolons');
    });

    test('of Online Retail II are read', async () => {
      const text =
        'Invoice,StockCode,Description,Quantity,InvoiceDate,Price,Customer ID,Country\nC489449,22087,PAPER BUNTING,-12,2009-12-01 10:33:00,2.95,16321,Australia\n';
      const { rows } = await read(text, { map: shipped('online-retail-ii') });
      expect(rows).toMatchObject([
        { InvoiceNo: 'C489449', UnitPrice: '2.95', CustomerID: '16321' },
      ]);
    });
  });

  describe('a file that is not as stated', () => {
    const withMap = async (text: string, map: object) => {
      const path = join(folder, 'map.json');
      await writeFile(path, JSON.stringify(map));
      return read(text, { map: path });
    };

    test('is rejected when it has decimal points instead of commas, because 1.250 would be 1250', async () => {
      const rows = (price: string) =>
        `${HEADER}\nA,1,x,-1,2011-03-01,1.250,,UK\nB,1,x,-1,2011-03-01,${price},,UK\n`;
      await expect(withMap(rows('1.95'), { decimal: ',' })).rejects.toThrow(
        'line 3: UnitPrice "1.95" has another decimal sign than stated: the file of --columns needs "decimal": "."',
      );
      expect((await withMap(rows('"1,95"'), { decimal: ',' })).rows).toHaveLength(2);
    });

    test('is rejected when it has decimal commas, because its 1.250 would be 1.25', async () => {
      const rows = (price: string) =>
        `${HEADER}\nA,1,x,-1,2011-03-01,1.250,,UK\nB,1,x,-1,2011-03-01,"${price}",,UK\n`;
      await expect(read(rows('1.250,00'))).rejects.toThrow(
        'line 3: UnitPrice "1.250,00" has another decimal sign than stated: the file of --columns needs "decimal": ","',
      );
      expect((await withMap(rows('1,250'), { decimal: '.' })).rows).toHaveLength(2);
      const european = rows('2').replaceAll(',', ';');
      await expect(read(european)).rejects.toThrow('needs "decimal": "," or "decimal": "."');
      expect((await withMap(european, { decimal: ',' })).rows).toHaveLength(2);
    });

    test.each([
      ['within a cell', '5" pipe'],
      ['after the end of a cell', '"5" pipe"'],
    ])('names the line of a quote %s, and says how to write it', async (_, cell) => {
      const [header = '', one = '', other = ''] = TEXT.split('\n');
      const many = `${one}\n`.repeat(2_000);
      await expect(read(`${header}\n\n${many}B,2,${cell},-1\n${other}`)).rejects.toThrow(
        'line 2003: a quote is within a cell: write a cell with a quote in quotes, and the quote twice',
      );
    });

    test('may have different line ends, which are no part of cells', async () => {
      const [header = '', one = '', other = ''] = TEXT.split('\n');
      const texts = [
        `${header}\n${one}\r\n${other}\r\n`,
        `${header}\r\n${one}\n${other}\n`,
        `${header}\r${one}\r${other}`,
      ];
      for (const text of texts) {
        expect((await read(text)).rows).toMatchObject([
          { line: 2, Country: 'C\u00f4te', isWhole: true },
          { line: 3, Country: 'UK', isWhole: true },
        ]);
      }
    });

    test('names the line of a quote that does not close, also far before the end', async () => {
      const [header = '', one = '', other = ''] = TEXT.split('\n');
      const rest = `${other}\n`.repeat(10_000);
      await expect(read(`${header}\n${one}\nB,"2,x\n${rest}`)).rejects.toThrow(
        'line 3: the row is longer than 65536 characters; probably a quote in it does not close',
      );
    });

    test('is named without control characters, which would change the terminal', async () => {
      await expect(read('\u001b[2Ja,b\n1,2\n')).rejects.toThrow('it has \ufffd[2Ja, b (');
    });
  });
});

describe('standard input', () => {
  const TEXT = `${HEADER}\nA,1,"x\ny",-1,d,1,,UK\nB,2,,-1,d,1,,UK\nA,3,,-1,d,1,,UK\n`;

  /** Splits a text into chunks that may end within a cell, as chunks of a pipe do. */
  async function* chunks(text: string, size = 7): AsyncGenerator<Uint8Array> {
    const bytes = Buffer.from(text);
    for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
  }

  const storedFiles = async () =>
    (await readdir(tmpdir())).filter((name) => name.startsWith('rms-import-stdin-'));

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

const london = (text: string): string | undefined => {
  const at = timeInZone(text, 'Europe/London');
  return at === undefined ? undefined : new Date(at).toISOString();
};

describe('a time in London', () => {
  test.each([
    ['2010-12-01T14:33:00', '2010-12-01T14:33:00.000Z'],
    ['2011-07-01T14:33', '2011-07-01T13:33:00.000Z'],
    ['2011-07-01 14:33:09', '2011-07-01T13:33:09.000Z'],
    ['2011-07-01', '2011-06-30T23:00:00.000Z'],
    ['2011-07-01T14:33:00Z', '2011-07-01T14:33:00.000Z'],
    ['2011-07-01T14:33:00+05:30', '2011-07-01T09:03:00.000Z'],
    // Clocks went forward at 01:00 on 27 March 2011, and back at 02:00 on 30 October.
    ['2011-03-27T00:59:59', '2011-03-27T00:59:59.000Z'],
    ['2011-03-27T01:30:00', '2011-03-27T01:30:00.000Z'],
    ['2011-03-27T02:00:00', '2011-03-27T01:00:00.000Z'],
    ['2011-10-30T01:30:00', '2011-10-30T00:30:00.000Z'],
    ['2011-10-30T02:00:00', '2011-10-30T02:00:00.000Z'],
  ])('%s is %s', (text, expected) => {
    expect(london(text)).toBe(expected);
  });

  test.each(['yesterday', '', '2011-02-30', '2011-07-01T25:00', '1/7/2011 14:33'])(
    '%j is not a time',
    (text) => {
      expect(london(text)).toBeUndefined();
    },
  );
});

describe('a date of a file', () => {
  test.each<[string, DateForm, string]>([
    ['2011/12/9 8:26', 'iso', '2011-12-09T08:26:00'],
    ['2011.12.09', 'mm/dd/yyyy', '2011-12-09T00:00:00'],
    ['20111209 08:26', 'iso', '2011-12-09T08:26:00'],
    ['2011-12-09 08:26:05.123', 'iso', '2011-12-09T08:26:05'],
    ['2011-12-09 08:26:05 -0500', 'iso', '2011-12-09T08:26:05-05:00'],
    ['2011-12-09 08:26:05+00', 'iso', '2011-12-09T08:26:05+00:00'],
    ['2011-12-09 08:26:05 UTC', 'iso', '2011-12-09T08:26:05Z'],
    ['9/12/2011 12:26 AM', 'dd/mm/yyyy', '2011-12-09T00:26:00'],
    ['9-12-2011, 1:26:05 p.m.', 'mm/dd/yyyy', '2011-09-12T13:26:05'],
    ['09.12.2011 08.26', 'dd/mm/yyyy', '2011-12-09T08:26:00'],
    ['09.12.11 8h26', 'dd/mm/yy', '2011-12-09T08:26:00'],
    ['9/12/11', 'mm/dd/yy', '2011-09-12T00:00:00'],
    ['11/12/09', 'yy/mm/dd', '2011-12-09T00:00:00'],
  ])('%j, which is %s, is %s', (text, form, iso) => {
    expect(isoDate(text, form)).toBe(iso);
  });

  test.each<[string, DateForm]>([
    ['9/12/2011', 'iso'],
    ['9/12/11', 'dd/mm/yyyy'],
    ['9/12/2011', 'dd/mm/yy'],
    ['9/12-2011', 'dd/mm/yyyy'],
    ['9/12/211', 'dd/mm/yyyy'],
    ['9/12/2011 8', 'dd/mm/yyyy'],
    ['201112', 'iso'],
  ])('%j is not %s', (text, form) => {
    expect(isoDate(text, form)).toBe(text);
  });
});
