import { createHash } from 'node:crypto';
import type { MessageInitShape } from '@bufbuild/protobuf';
import english from 'i18n-iso-countries/langs/en.json' with { type: 'json' };
import type {
  SubmitReturnRequest,
  SubmitReturnRequestSchema,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { Outcome } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { normalForm } from '../../../services/platform/values/text.ts';
import { lineAmount, mayHaveOtherDecimal, plainNumber } from './amount.ts';
import { type ColumnMap, withoutInvisible } from './format.ts';
import { type Invoice, MAX_ROWS, type Row } from './rows.ts';
import type { ImportTarget } from './target.ts';
import { formsOf, isoDate, linesOf, timeInZone } from './time-in-zone.ts';

/** ISO 3166 alpha-2 by itself and by English name, lower case. Some countries have several names. */
const CODES = new Map(
  Object.entries(english.countries).flatMap(([code, names]) =>
    [code, names].flat().map((name) => [name.toLowerCase(), code]),
  ),
);

/** Codes of country names that occur in the file and not in ISO 3166. */
const COUNTRY_CODES = new Map(Object.entries({ EIRE: 'IE', USA: 'US', RSA: 'ZA' }));

/** Ids at the commerce provider start here, so that they never equal internal ids. */
const PROVIDER_IDS = 1_000_000_000_000n;

/** Why a row cannot become a line item. `line` is the line of the file. */
export interface RowError {
  readonly line: number;
  readonly reason: string;
}

export type Submission = Exclude<
  MessageInitShape<typeof SubmitReturnRequestSchema>,
  SubmitReturnRequest
>;

export type Mapped = { readonly submission: Submission } | { readonly errors: readonly RowError[] };

/** The id of an order that was imported under this number. */
const importedOrderId = (number: string): bigint => stableId(`order:${number}`);

/**
 * Converts the rows of one invoice to a submission. Values that the file does not contain get the defaults of
 * docs/import.md: tax 0, outcome refund, no label, presentment currency = shop currency.
 */
export function mapInvoice(invoice: Invoice, target: ImportTarget, map: ColumnMap): Mapped {
  const [first] = invoice.rows;
  if (!first) return { errors: [] };
  const errors: RowError[] = [];
  if (invoice.size > MAX_ROWS) {
    const reason = `${invoice.number} has ${invoice.size} rows: a return takes at most ${MAX_ROWS}`;
    errors.push({ line: first.line, reason });
  }
  const lines = invoice.rows.map((row, at) => lineOf(row, at, { ...invoice, target, map, errors }));
  const other = invoice.rows.find((row) => isOfOther(row, first));
  if (other) {
    const reason = `CustomerID differs from line ${first.line}: all rows of an invoice must have one customer`;
    errors.push({ line: other.line, reason });
  }
  const submittedAt = localTime(first, map, errors);
  if (errors.length > 0) return { errors };
  return {
    submission: {
      shopId: target.shopId,
      actor: target.actor,
      idempotencyKey: `import:${invoice.number}`,
      order: { providerOrderId: importedOrderId(invoice.number), name: first.InvoiceNo },
      currency: target.currency,
      presentmentCurrency: target.currency,
      customer: {
        ...(first.CustomerID.trim() && { lastName: `Customer ${customerOf(first)}` }),
        address: { country: first.Country, countryCode: countryCode(first.Country) },
      },
      outcome: Outcome.REFUND,
      returnMethod: target.returnMethod,
      submittedAt: { seconds: BigInt(Math.floor(submittedAt / 1000)), nanos: 0 },
      lines,
      correctTexts: true,
    },
  };
}

/** Whether a row names another customer. Some programs name the customer only in the first row of an invoice. */
function isOfOther(row: Row, first: Row): boolean {
  const customer = normalForm(customerOf(row));
  return customer !== '' && customer !== normalForm(customerOf(first));
}

/** The customer's number. A program that reads the column as decimal numbers writes `17850.0` or `17850,00`. */
const customerOf = ({ CustomerID }: Row) => CustomerID.replace(/^(\s*\d+)[.,]00?(?=\s*$)/, '$1');

/** A formula, an error value, or a long number that was rounded: the number is lost, and others look the same. */
const OF_SPREADSHEET = /^(?:=|#+$|#n\/\p{L}+$|#nv$|#\p{L}+(?:\/0)?[!?]$|\d(?:[.,]\d+)?e\+\d+$)/iu;

function lineOf(
  row: Row,
  at: number,
  o: { number: string; target: ImportTarget; map: ColumnMap; errors: RowError[] },
) {
  const reject = (reason: string) => o.errors.push({ line: row.line, reason });
  if (!row.isWhole) reject('the row has more or fewer cells than the first line');
  for (const name of ['InvoiceNo', 'StockCode', 'CustomerID'] as const) {
    const text = row[name].trim();
    if (text === '' && name !== 'CustomerID') reject(`${name} is empty`);
    const [hidden] = [...text].filter((sign) => withoutInvisible(sign) === '');
    if (hidden !== undefined) {
      const code = hidden.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0');
      reject(
        `${name} has the invisible character U+${code}: remove it, for example by typing the value again`,
      );
    }
    if (!OF_SPREADSHEET.test(text)) continue;
    reject(
      `${name} "${text}" is what a spreadsheet made of it: format the column as text before the data is in it, and export again`,
    );
  }
  const units = plainNumber(row.Quantity, o.map.decimal);
  const quantity = Number(units || Number.NaN);
  const isValid = Number.isInteger(quantity) && quantity < 0 && quantity >= -1_000_000;
  if (!isValid) {
    reject(
      `Quantity must be a whole number from -1000000 to -1, not "${row.Quantity}"${hintOf(units, o.map)}`,
    );
  }
  const price = plainNumber(row.UnitPrice, o.map.decimal);
  const amount = isValid ? lineAmount(price, -quantity, o.target.currency) : '0';
  if (amount === undefined) {
    reject(
      `UnitPrice must be a decimal number of 0 or more that fits ${o.target.currency}, not "${row.UnitPrice}"${hintOf(price, o.map)}`,
    );
  }
  const money = { shop: amount ?? '0' };
  const title = row.Description.trim() || row.StockCode;
  return {
    // An invoice may have the same SKU twice, so the id contains the position.
    providerLineItemId: stableId(`line:${o.number}:${at}`),
    providerLineItemExternalId: `${o.number}:${at + 1}`,
    sku: row.StockCode,
    lineItemTitle: title,
    title,
    quantity: isValid ? -quantity : 1,
    price: money,
    refundItem: money,
  };
}

/** What to do about a text that is no number. */
function hintOf(number: string, { decimal }: ColumnMap): string {
  if (decimal === undefined && mayHaveOtherDecimal(number)) {
    return ': for its comma, the file of --columns needs "decimal": "," or "decimal": "."';
  }
  return /[\p{Sc}\p{L}]/u.test(number) ? ': leave out signs of currencies and letters' : '';
}

function localTime(
  { InvoiceDate: text, line }: Row,
  { dates, zone }: ColumnMap,
  errors: RowError[],
) {
  const time = timeInZone(isoDate(text.trim(), dates), zone);
  if (time === undefined) {
    const form = dates === 'iso' ? 'an ISO time' : `a time ${dates} hh:mm`;
    const forms = formsOf(text);
    const hint = forms.length > 0 ? `: the file of --columns needs ${linesOf(forms)}` : '';
    const serial = /^\d{5}(?:[.,]\d+)?$/.test(text.trim()) ? ': format the column as dates' : '';
    errors.push({ line, reason: `InvoiceDate must be ${form}, not "${text}"${hint}${serial}` });
  }
  return time ?? 0;
}

/** ISO 3166 alpha-2; empty when the text is no country of the standard. */
function countryCode(text: string): string {
  const name = normalForm(withoutInvisible(text));
  return COUNTRY_CODES.get(name) ?? CODES.get(name.toLowerCase()) ?? '';
}

/** An id from 48 bits of the text's hash. It is the same in every run, and larger than all internal ids. */
function stableId(text: string): bigint {
  const hash = createHash('sha256').update(`import:${text}`).digest();
  return PROVIDER_IDS + BigInt(hash.readUIntBE(0, 6));
}
