import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { ReturnMethod } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { lineAmount, plainNumber } from './amount.ts';
import { type ColumnMap, formatOf, USUAL_COLUMNS } from './format.ts';
import { type Invoice, readInvoices } from './rows.ts';
import { mapInvoice } from './submission.ts';

const target = {
  shopId: 1n,
  currency: 'GBP',
  actor: { id: 'test' },
  returnMethod: ReturnMethod.MAIL,
};

const row = {
  line: 2,
  isWhole: true,
  InvoiceNo: 'C536548',
  StockCode: '22631',
  Description: 'CIRCUS PARADE LUNCH BOX ',
  Quantity: '-3',
  InvoiceDate: '2010-12-01T14:33:00',
  UnitPrice: '1.95',
  CustomerID: '12472',
  Country: 'EIRE',
};

function invoice(...changes: object[]): Invoice {
  const rows = changes.map((change, at) => ({ ...row, line: 2 + at, ...change }));
  return { number: row.InvoiceNo, rows, size: rows.length, bytesRead: 0 };
}

function submissionOf(invoice: Invoice, map: ColumnMap = USUAL_COLUMNS) {
  const mapped = mapInvoice(invoice, target, map);
  if ('errors' in mapped) throw new Error(JSON.stringify(mapped.errors));
  return mapped.submission;
}

describe('a line amount', () => {
  test('is the unit price times the quantity, exactly', () => {
    fc.assert(
      fc.property(
        fc.bigInt(0n, 10n ** 8n),
        fc.integer({ min: 1, max: 100_000 }),
        (pence, quantity) => {
          const price = `${pence / 100n}.${String(pence % 100n).padStart(2, '0')}`;
          const total = pence * BigInt(quantity);
          expect(lineAmount(price, quantity, 'GBP')).toBe(
            `${total / 100n}.${String(total % 100n).padStart(2, '0')}`,
          );
        },
      ),
    );
  });

  test.each(['-1', '1,5', 'abc', '', '1e3', '0.001'])('rejects the price %p', (price) => {
    expect(lineAmount(price, 1, 'GBP')).toBeUndefined();
  });

  test('accepts a price with more decimals than the currency, if the product fits', () => {
    expect(lineAmount('0.005', 2, 'GBP')).toBe('0.01');
    expect(lineAmount('1.9500000000', 2, 'GBP')).toBe('3.90');
  });

  test.each([
    ['JPY', '500000000000', '1000000000000'],
    ['GBP', '500000000000', '1000000000000.00'],
    ['BHD', '500000000000', '1000000000000.000'],
  ])('is at most 10^12 %s, whatever its decimals', (currency, unitPrice, largest) => {
    expect(lineAmount(unitPrice, 2, currency)).toBe(largest);
    expect(lineAmount(unitPrice, 3, currency)).toBeUndefined();
  });
});

describe('a number', () => {
  test.each([
    ['1.234,50', ',', '1234.50'],
    ['-1.000', ',', '-1000'],
    ['1\u202f234,5', ',', '1234.5'],
    ['2,55', ',', '2.55'],
    [',5', ',', '0.5'],
    ['12,34,5', ',', '12,34,5'],
    ['1,234.50', '.', '1234.50'],
    ['1,234', '.', '1234'],
    ['-1,234,567', '.', '-1234567'],
    ['.95', '.', '0.95'],
    ['1,5', '.', '1,5'],
    ['1,234', undefined, '1,234'],
    ['1,234.50', undefined, '1234.50'],
    ["1'234.5", undefined, '1234.5'],
    [' 2.55 ', undefined, '2.55'],
    ['\u22125', undefined, '-5'],
    ['(1.234)', ',', '-1234'],
    ['5-', undefined, '-5'],
    ['-(5)', undefined, '-(5)'],
    ['.', undefined, '.'],
  ] as const)('%j with the decimal sign %j is %j', (text, decimal, plain) => {
    expect(plainNumber(text, decimal)).toBe(plain);
  });
});

describe('an invoice', () => {
  test('becomes a submission with the documented defaults', () => {
    expect(submissionOf(invoice({}))).toMatchObject({
      idempotencyKey: 'import:C536548',
      order: { name: 'C536548' },
      currency: 'GBP',
      presentmentCurrency: 'GBP',
      customer: { lastName: 'Customer 12472', address: { country: 'EIRE', countryCode: 'IE' } },
      lines: [
        {
          sku: '22631',
          quantity: 3,
          title: 'CIRCUS PARADE LUNCH BOX',
          price: { shop: '5.85' },
          refundItem: { shop: '5.85' },
        },
      ],
    });
  });

  test.each([
    ['EIRE', 'IE'],
    ['de', 'DE'],
    ['United Kingdom', 'GB'],
    ['UK', 'GB'],
    ['Fran\u200bce', 'FR'],
    ['Unspecified', ''],
  ])('of the country %s has the code %j', (Country, countryCode) => {
    expect(submissionOf(invoice({ Country })).customer?.address).toMatchObject({ countryCode });
  });

  test('reads its time in London, winter and summer', () => {
    const at = (date: string) => submissionOf(invoice({ InvoiceDate: date })).submittedAt?.seconds;
    expect(at('2010-12-01T14:33:00')).toBe(BigInt(Date.UTC(2010, 11, 1, 14, 33) / 1000));
    expect(at('2011-07-01T14:33:00')).toBe(BigInt(Date.UTC(2011, 6, 1, 13, 33) / 1000));
  });

  test('reads its time in the zone of its file', () => {
    const map = { ...USUAL_COLUMNS, zone: 'Asia/Tokyo' };
    const { submittedAt } = submissionOf(invoice({ InvoiceDate: '2010-12-01 08:33' }), map);
    expect(submittedAt?.seconds).toBe(BigInt(Date.UTC(2010, 10, 30, 23, 33) / 1000));
  });

  test('reads dates and decimals as its file writes them', () => {
    const map = { ...USUAL_COLUMNS, dates: 'dd/mm/yyyy', decimal: ',' } as const;
    const read = (InvoiceDate: string, UnitPrice: string) => {
      const { submittedAt, lines } = submissionOf(invoice({ InvoiceDate, UnitPrice }), map);
      return [submittedAt?.seconds, lines?.[0]?.price?.shop];
    };
    const at = BigInt(Date.UTC(2010, 11, 1, 14, 33) / 1000);
    expect(read('01/12/2010 14:33', '1.950,25')).toEqual([at, '5850.75']);
    expect(read('1.12.2010 2:33 PM', '1,95')).toEqual([at, '5.85']);
    expect(read('2010-12-01T14:33:00', '2')).toEqual([at, '6.00']);
  });

  test.each([
    [
      { UnitPrice: '1,950' },
      ': for its comma, the file of --columns needs "decimal": "," or "decimal": "."',
    ],
    [{ Quantity: '-1,000' }, ': for its comma, the file of --columns needs "decimal"'],
    [{ UnitPrice: '1.95 €' }, 'leave out signs of currencies'],
    [
      { InvoiceDate: '1/12/2010 14:33' },
      ': the file of --columns needs "dates": "dd/mm/yyyy" or "dates": "mm/dd/yyyy"',
    ],
    [{ InvoiceDate: '31.12.10' }, 'needs "dates": "dd/mm/yy"'],
    [{ InvoiceDate: '40513.6' }, 'format the column as dates'],
    [{ InvoiceNo: '1.23E+11' }, 'format the column as text'],
    [{ StockCode: '="00123"' }, 'format the column as text'],
    [{ CustomerID: '1.785E+15' }, 'format the column as text'],
    [{ InvoiceNo: 'C536548\u200b' }, 'InvoiceNo has the invisible character U+200B: remove it'],
    [{ StockCode: '22\ufeff631' }, 'StockCode has the invisible character U+FEFF'],
    [{ CustomerID: '\u206012472' }, 'CustomerID has the invisible character U+2060'],
  ])('with %p says what to do', (change, advice) => {
    expect(mapInvoice(invoice(change), target, USUAL_COLUMNS)).toEqual({
      errors: [{ line: 2, reason: expect.stringContaining(advice) }],
    });
  });

  test.each(['1,23E+11', '1E+15', '=A1', '#REF!', '#N/A', '#NV', '#BEZUG!', '#DIV/0!', '####'])(
    'numbered %p is rejected, because a spreadsheet lost its number',
    (InvoiceNo) => {
      expect(mapInvoice(invoice({ InvoiceNo }), target, USUAL_COLUMNS)).toMatchObject({
        errors: [{ line: 2 }],
      });
    },
  );

  test.each(['#1001', '00123', 'E+11', '15E10', '#NA1001'])('may be numbered %p', (InvoiceNo) => {
    expect(submissionOf(invoice({ InvoiceNo })).order?.name).toBe(InvoiceNo);
  });

  test('has one customer, whom a program may name only in its first row', () => {
    const of = (...ids: string[]) => invoice(...ids.map((CustomerID) => ({ CustomerID })));
    expect(submissionOf(of('12472', '12472 ', '')).customer?.lastName).toBe('Customer 12472');
    expect(mapInvoice(of('12472', '', '12473'), target, USUAL_COLUMNS)).toEqual({
      errors: [{ line: 4, reason: expect.stringContaining('CustomerID differs from line 2') }],
    });
    expect(submissionOf(invoice({ CustomerID: ' ' })).customer?.lastName).toBeUndefined();
    for (const decimal of ['17850.0', '17850,00'])
      expect(submissionOf(of(decimal, '17850')).customer?.lastName).toBe('Customer 17850');
    for (const other of ['17.000', '17,850', 'B17850.0'])
      expect(submissionOf(of(other)).customer?.lastName).toBe(`Customer ${other}`);
  });

  test('gives two lines with the same SKU different ids, which are the same in every run', () => {
    const ids = () => submissionOf(invoice({}, {})).lines?.map((line) => line.providerLineItemId);
    const [first, second] = ids() ?? [];
    expect(first).not.toBe(second);
    expect(ids()).toEqual([first, second]);
    expect(first).toBeGreaterThanOrEqual(10n ** 12n);
  });

  test.each([
    [{ Quantity: '3' }, 'Quantity must be a whole number from -1000000 to -1, not "3"'],
    [{ Quantity: '-1.5' }, 'Quantity must be a whole number from -1000000 to -1, not "-1.5"'],
    [
      { UnitPrice: '1.999' },
      'UnitPrice must be a decimal number of 0 or more that fits GBP, not "1.999"',
    ],
    [{ InvoiceDate: 'yesterday' }, 'InvoiceDate must be an ISO time, not "yesterday"'],
    [{ InvoiceDate: '31/02/2010' }, 'InvoiceDate must be an ISO time, not "31/02/2010"'],
    [{ StockCode: ' ' }, 'StockCode is empty'],
    [{ isWhole: false }, 'the row has more or fewer cells than the first line'],
  ])('is rejected for %p, with the line and the reason', (change, reason) => {
    expect(mapInvoice(invoice(change), target, USUAL_COLUMNS)).toEqual({
      errors: [{ line: 2, reason }],
    });
  });
});

describe('a file', () => {
  async function invoicesOf(text: string) {
    const folder = await mkdtemp(join(tmpdir(), 'rms-import-'));
    try {
      await writeFile(join(folder, 'file.csv'), text);
      const invoices: Invoice[] = [];
      const file = join(folder, 'file.csv');
      for await (const one of readInvoices(file, await formatOf(file))) invoices.push(one);
      return invoices;
    } finally {
      await rm(folder, { recursive: true });
    }
  }
  const header =
    'InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country';

  test('returns an invoice that is too long for a return as one invoice, so that it is rejected as a whole', async () => {
    const rows = Array.from({ length: 260 }, (_, at) => `A,${at},,-1,d,1,,UK\n`).join('');
    const invoices = await invoicesOf(`${header}\n${rows}B,3,,-1,d,1,,UK\n`);
    expect(invoices.map(({ number, rows: read, size }) => [number, read.length, size])).toEqual([
      ['A', 251, 260],
      ['B', 1, 1],
    ]);
  });

  test('is read invoice by invoice, with the line of each row', async () => {
    const text = `${header}\nA,1,"x, ""y""",-1,d,1,,UK\nA,2,,-1,d,1,,UK\nB,3,,-1,d,1,,UK\n`;
    const invoices = await invoicesOf(text);
    expect(invoices.map(({ number, rows }) => [number, rows.map(({ line }) => line)])).toEqual([
      ['A', [2, 3]],
      ['B', [4]],
    ]);
    expect(invoices[0]?.rows[0]?.Description).toBe('x, "y"');
  });

  test('is read to its end when a row has too few or too many cells, and the row is marked', async () => {
    const text = `${header}\nA,1,,-1,d\nB,2,,-1,d,1,,UK,more\nC,3,,-1,d,1,,UK\n`;
    const rows = (await invoicesOf(text)).flatMap((invoice) => invoice.rows);
    expect(rows.map(({ line, isWhole }) => [line, isWhole])).toEqual([
      [2, false],
      [3, false],
      [4, true],
    ]);
  });

  test.each([
    ['nothing at all', ''],
    ['blank lines', '\n\n\n'],
    ['blank lines of another system', '\r\n\r\n'],
    ['a byte order mark', '\ufeff\n'],
    ['spaces', '  \n \n'],
  ])('of %s is rejected', async (_, text) => {
    await expect(invoicesOf(text)).rejects.toThrow('the file is empty: its first line must name');
  });

  test('without a required column is rejected with the name of the column', async () => {
    await expect(invoicesOf('InvoiceNo,StockCode\nA,1\n')).rejects.toThrow(
      'line 1: the file has no column Description, Quantity, InvoiceDate, UnitPrice, CustomerID, Country; it has InvoiceNo, StockCode (UTF-8, separated by commas)',
    );
  });
});
