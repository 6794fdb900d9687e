import type pg from 'pg';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { ProviderOrder, ProviderRefund } from '../../../services/commerce/provider.ts';
import { inTransaction } from '../../../services/platform/postgres/postgres.ts';
import { recordOrder, recordRefund } from '../../../services/returns/inbound/record-reports.ts';

// News of a provider about the order of a return.

/** The shop and the order of a return, by the provider's ids, and its first order line. */
export function orderOf({ shopId, order, lineItems }: Return) {
  const providerOrderId = order?.providerOrderId ?? 0n;
  return { shopId, providerOrderId, line: lineItems[0]?.providerLineItemId ?? 0n };
}

type About = ReturnType<typeof orderOf>;

/** Records the order with `quantity` ordered units of the line. */
export function reportOrder(
  pool: pg.Pool,
  { line, ...of }: About,
  o: { readonly quantity: number } & Partial<ProviderOrder>,
): Promise<boolean> {
  const { quantity, ...more } = o;
  const lines = [{ providerLineItemId: line, quantity }];
  const updatedAt = new Date('2026-11-20T10:00:00Z');
  const order = { ...of, name: '#1', updatedAt, cancelledAt: undefined, lines, ...more };
  return inTransaction(pool, (tx) => recordOrder(tx, order));
}

/** Records a refund of `quantity` units of the line. */
export function reportRefund(
  pool: pg.Pool,
  { line, ...of }: About,
  o: { readonly quantity: number } & Partial<ProviderRefund>,
): Promise<boolean> {
  const { quantity, ...more } = o;
  const lines = [{ providerLineItemId: line, quantity, amount: '5.00' }];
  const refund = {
    ...of,
    providerRefundId: 'R-1',
    key: '',
    amount: '5.00',
    currency: 'GBP',
    lines,
    refundedAt: new Date('2026-11-20T10:00:00Z'),
    ...more,
  };
  return inTransaction(pool, (tx) => recordRefund(tx, refund));
}
