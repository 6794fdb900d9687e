import { create, toJson } from '@bufbuild/protobuf';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import { Code } from '@connectrpc/connect';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { AddressSchema } from '../../../proto/gen/rms/returns/v1/address_pb.ts';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { DomainError } from '../../platform/values/errors.ts';
import { normalForm, snakeCase } from '../../platform/values/text.ts';
import { exchangeSumsIn, LINE_AMOUNTS, lineSumsIn } from '../money/totals.ts';
import type { ReturnStore } from '../store/return-store.ts';
import type { CheckedSubmission } from './submit-store.ts';

/** The texts of a line item that a correction changes. */
const LINE_TEXTS = ['line_item_title', 'variant_title', 'title'] as const;
/** Maximum number of fields in the error. */
const NAMED_MAX = 20;

/**
 * Changes the texts of a return to those of a later submission with the same key. The rest must be the same. A return
 * in any state is corrected. The address of a redacted return stays removed.
 *
 * @param o.columns the columns of each line item.
 * @throws DomainError IDEMPOTENCY_CONFLICT with the fields that differ; RETURN_TOO_LARGE.
 */
export async function correctTexts(
  store: ReturnStore,
  returnId: bigint,
  o: { readonly checked: CheckedSubmission; readonly columns: readonly object[] },
): Promise<{ readonly return: Return; readonly corrected: boolean }> {
  const { checked } = o;
  const { shopId, actor } = checked.submission;
  const by = { shopId, actor, returnId, addsInput: true };
  const { value, return: after } = await store.change(by, async (tx, current) => {
    const differing = differencesOf(current, checked);
    if (differing.length > 0) throw conflict(differing);
    const entry = {
      returnId,
      kind: 'return.corrected',
      text: 'Texts of the return were corrected',
    };
    const isChanged = await writeTexts(tx, current, o);
    return { value: current.revision, ...(isChanged && { timeline: [entry] }) };
  });
  return { return: after, corrected: after.revision !== value };
}

function conflict(fields: readonly string[]): DomainError {
  return new DomainError(
    Code.AlreadyExists,
    ErrorReason.IDEMPOTENCY_CONFLICT,
    `idempotency_key was used with other content: ${fields.slice(0, NAMED_MAX).join(', ')}`,
    { field: fields[0] ?? 'idempotency_key' },
  );
}

/** The fields of a submission that are no texts, and differ from the return. */
function differencesOf(current: Return, checked: CheckedSubmission): string[] {
  const { submission: sent, currencies, createdAt } = checked;
  const stored = current.order;
  const lastName = normalForm(current.customer?.lastName ?? '');
  const pairs: [field: string, one: unknown, other: unknown][] = [
    ['order.provider_order_id', stored?.providerOrderId, sent.order.providerOrderId],
    ['order.name', normalForm(stored?.name ?? ''), normalForm(sent.order.name)],
    ['currency', current.currency, currencies.shop],
    ['presentment_currency', current.presentmentCurrency, currencies.presentment],
    ['outcome', current.outcome, sent.outcome],
    // Redaction removes the name.
    [
      'customer.last_name',
      lastName || null,
      lastName ? normalForm(sent.customer.lastName ?? '') : null,
    ],
    ['lines', current.lineItems.length, checked.lines.length],
    ['exchanges', exchangeSumsIn(current).length, checked.exchanges.length],
    ...(sent.submittedAt && current.createdAt
      ? [
          ['submitted_at', timestampMs(current.createdAt), createdAt.getTime()] as [
            string,
            number,
            number,
          ],
        ]
      : []),
    ...lineDifferences(current, checked),
  ];
  const differing = pairs.filter(([, one, other]) => one !== other).map(([field]) => field);
  return [...new Set(differing)];
}

function lineDifferences(current: Return, { lines, currencies }: CheckedSubmission) {
  return lines.flatMap(({ line, sums }, n): [string, unknown, unknown][] => {
    const stored = current.lineItems[n];
    if (!stored) return [];
    const before = lineSumsIn(stored, currencies);
    const external = normalForm(stored.providerLineItemExternalId);
    const at = `lines[${n}]`;
    return [
      [`${at}.provider_line_item_id`, stored.providerLineItemId, line.providerLineItemId],
      [
        `${at}.provider_line_item_external_id`,
        external,
        normalForm(line.providerLineItemExternalId),
      ],
      [`${at}.sku`, normalForm(stored.sku), normalForm(line.sku)],
      [`${at}.quantity`, stored.quantity, line.quantity],
      ...LINE_AMOUNTS.flatMap((name): [string, unknown, unknown][] =>
        (['shop', 'presentment'] as const).map((side) => [
          `${at}.${snakeCase(name)}`,
          before[side][name],
          sums[side][name],
        ]),
      ),
    ];
  });
}

/** Returns whether a text was another one. */
async function writeTexts(
  tx: Queryable,
  current: Return,
  {
    checked,
    columns,
  }: { readonly checked: CheckedSubmission; readonly columns: readonly object[] },
) {
  const rows = columns.map((line, n) => ({
    ...line,
    id: current.lineItems[n]?.lineItemId.toString(),
  }));
  const lines = await tx.query(
    `update return_lines l set ${LINE_TEXTS.map((column) => `${column} = e.${column}`).join(', ')}
       from jsonb_populate_recordset(null::return_lines, $3::jsonb) e
      where l.shop_id = $1 and l.return_id = $2 and l.id = e.id
        and (${namesIn('l')}) is distinct from (${namesIn('e')})`,
    [current.shopId, current.id, JSON.stringify(rows)],
  );
  const { address } = checked.submission.customer;
  const isChanged = lines.rowCount !== 0;
  if (!address) return isChanged;
  const addresses = await tx.query(
    `update returns set customer_address = $3
      where shop_id = $1 and id = $2 and redacted_at is null and customer_address is distinct from $3`,
    [current.shopId, current.id, toJson(AddressSchema, create(AddressSchema, address))],
  );
  return isChanged || addresses.rowCount !== 0;
}

const namesIn = (alias: string) => LINE_TEXTS.map((column) => `${alias}.${column}`).join(', ');
