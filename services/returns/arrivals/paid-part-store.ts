import type { MessageInitShape } from '@bufbuild/protobuf';
import type { Return as Details } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { PaidPartSchema } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { named, rowsOf, sql } from '../../platform/postgres/sql.ts';
import { amountColumns, inBoth } from '../../platform/values/money.ts';
import {
  LINE_AMOUNTS,
  returnTotalOf,
  STORED_RETURN_AMOUNTS,
  shippingOf,
  shippingTaxOf,
} from '../money/totals.ts';
import { feeOf } from '../policy/policy.ts';
import { loadPolicyVersion } from '../policy/policy-store.ts';
import type { ReturnRef } from '../return.ts';
import { LARGE_BYTES } from '../store/large.ts';
import { loadReturnWithin } from '../store/load.ts';
import { storeAmounts } from '../store/store-amounts.ts';
import { isDearerExchange, outcomeOfLines } from '../submit/outcomes.ts';
import { type FeeRule, type PaidUnits, paidPart, payableUnits } from './paid-part.ts';

const unitRows = rowsOf<readonly [bigint, number]>({
  id: ['bigint', ([id]) => id],
  units: ['integer', ([, units]) => units],
});

/** SQL condition: the policy that judged the return `r` pays the units that arrived. */
export const PAYS_ARRIVED = `r.return_method <> 'keep_item' and exists (
         select from policies p
          where p.shop_id = r.shop_id and p.version = r.policy_version
            and p.policy ->> 'refundBasis' = 'REFUND_BASIS_ARRIVED')`;

/** SQL condition: no unit of the lines of return `r` arrived undamaged or was accepted, see `payableUnits`. */
export const NOTHING_PAYABLE = `not exists (
         select from return_lines l
           left join line_dispositions d on d.shop_id = l.shop_id and d.line_item_id = l.id
          where l.shop_id = r.shop_id and l.return_id = r.id and l.removed_at is null
            and (l.arrived_quantity > l.damaged_quantity or (l.arrived_quantity = 0 and l.returned_at is not null)
              or d.outcome <> 'missing'))`;

export const NOTHING_PAYABLE_TEXT =
  'nothing of it has arrived undamaged or was accepted in an assessment, and the policy pays only such goods';
export const EXCHANGE_TEXT =
  'the goods that arrived are worth less than the exchange needs: edit the return, or accept the goods in an assessment';

/**
 * Returns the units that a run of processing pays, and records them: each later part of the run, and each later run
 * after a request to the provider, pays the same, whatever arrives in the meantime. They count as refunded once the
 * return is closed. Empty when the policy pays the announced units. The caller has locked the return.
 *
 * @param o.hasRequests whether something was requested of the provider for this return.
 */
export async function unitsToPay(
  tx: Queryable,
  details: Details,
  { hasRequests }: { readonly hasRequests: boolean },
): Promise<PaidUnits> {
  const { shopId, id: returnId } = details;
  if (!details.policyVersion) return new Map();
  const { rowCount } = await tx.query({
    name: 'pays-arrived',
    text: `select from returns r where r.shop_id = $1 and r.id = $2 and ${PAYS_ARRIVED}`,
    values: [shopId, returnId],
  });
  if (rowCount === 0) return new Map();
  const of = { shopId, returnId };
  if (hasRequests) return recordedPaidUnits(tx, of);
  const units = payableUnitsOf(details);
  await recordPaidUnits(tx, of, units);
  return units;
}

async function recordPaidUnits(
  tx: Queryable,
  { shopId, returnId }: ReturnRef,
  units: PaidUnits,
): Promise<void> {
  await tx.query(
    named(
      'record-paid-units',
      sql`update return_lines l set refunded_quantity = u.units from ${unitRows('u', [...units])}
           where l.shop_id = ${shopId} and l.return_id = ${returnId} and l.id = u.id
             and l.refunded_quantity is distinct from u.units`,
    ),
  );
}

/** Reads the units that an earlier run has begun to pay. */
async function recordedPaidUnits(
  tx: Queryable,
  { shopId, returnId }: ReturnRef,
): Promise<PaidUnits> {
  const { rows } = await tx.query<{ id: bigint; units: number }>({
    name: 'recorded-paid-units',
    text: `select id, refunded_quantity as units from return_lines
            where shop_id = $1 and return_id = $2 and refunded_quantity is not null`,
    values: [shopId, returnId],
  });
  return new Map(rows.map((row) => [row.id, row.units]));
}

const PART_NOW = `
select exists (
         select from processing_outcomes o
          where o.shop_id = r.shop_id and o.return_id = r.id and coalesce(o.done_at, o.asked_at) is not null
       ) as "hasRequests"
  from returns r where r.shop_id = $1 and r.id = $2 and ${PAYS_ARRIVED}`;

/**
 * Returns what processing would pay now, where the policy pays what arrived and that is less than was announced. It has
 * no amounts when the return is very large, or when a person must first decide about its exchange. Locks nothing.
 */
export async function paidPartNow(
  db: Queryable,
  of: ReturnRef,
): Promise<MessageInitShape<typeof PaidPartSchema> | undefined> {
  const { rows } = await db.query<{ hasRequests: boolean }>({
    name: 'paid-part-now',
    text: PART_NOW,
    values: [of.shopId, of.returnId],
  });
  const [row] = rows;
  if (!row) return undefined;
  const size = { id: of.returnId, maxBytes: LARGE_BYTES };
  const details = await loadReturnWithin(db, of.shopId, size);
  if (details === 'large') return {};
  if (!details) return undefined;
  const units = row.hasRequests ? await recordedPaidUnits(db, of) : payableUnitsOf(details);
  if (!isLess(details, units)) return undefined;
  const part = paidPart(details, units, await feeRuleOf(db, details));
  const { totals, presentmentTotals } = part?.details ?? {};
  return {
    units: Object.fromEntries(units),
    ...(totals && { totals }),
    ...(presentmentTotals && { presentmentTotals }),
  };
}

function payableUnitsOf({ lineItems }: Details): PaidUnits {
  return new Map(lineItems.map((line) => [line.lineItemId, payableUnits(line)]));
}

/** Returns the rule for the fee of the policy that judged a return. Undefined when there is none. */
export async function feeRuleOf(tx: Queryable, details: Details): Promise<FeeRule | undefined> {
  const { shopId, policyVersion, returnMethod } = details;
  const found = policyVersion && (await loadPolicyVersion(tx, shopId, policyVersion));
  if (!found || found.policy.fees.length === 0) return undefined;
  const currencies = { shop: details.currency, presentment: details.presentmentCurrency };
  const reasons = details.lineItems.map(({ reason }) => reason);
  const outcome = outcomeOfLines(details);
  const isDearer = isDearerExchange(details);
  const facts = { returnMethod, outcome, isDearer, reasons, currencies };
  return (goods, payable) => feeOf(found.policy, { ...facts, goods, payable });
}

/** Whether not all units of a return are paid. */
export function isLess({ lineItems }: Details, units: PaidUnits): boolean {
  return lineItems.some(
    ({ lineItemId, quantity }) => (units.get(lineItemId) ?? quantity) < quantity,
  );
}

/**
 * Stores the amounts of a return for its paid units, when it is closed. `edited_at` moves. Writes nothing when all
 * units are paid.
 *
 * @returns the return with only its paid units.
 */
export async function storePaidPart(
  tx: Queryable,
  current: Details,
  units: PaidUnits,
): Promise<Details> {
  if (!isLess(current, units)) return current;
  const part = paidPart(current, units, await feeRuleOf(tx, current));
  if (!part) throw new Error('the amounts of the return changed after its effects were made');
  const currencies = { shop: current.currency, presentment: current.presentmentCurrency };
  const rows = [...part.lines].map(([id, sums]) => ({
    id: `${id}`,
    ...amountColumns(LINE_AMOUNTS, sums, currencies),
  }));
  const lines = [...part.lines.values()];
  const sums = inBoth((side) => {
    const own = lines.map((line) => line[side]);
    return {
      ...part.sums[side],
      returnTotal: returnTotalOf(own),
      shipping: shippingOf(own),
      shippingTax: shippingTaxOf(own),
    };
  });
  await storeAmounts(tx, current, {
    lines: rows,
    sums: amountColumns(STORED_RETURN_AMOUNTS, sums, currencies),
  });
  return part.details;
}
