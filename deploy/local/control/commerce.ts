import type pg from 'pg';
import {
  createEmbeddedCommerce,
  type LedgerEntry,
} from '../../../services/returns/commerce/embedded.ts';
import type { CommerceRecord, Controls } from './routes.ts';

type CommerceControls = Pick<Controls, 'commerceOf' | 'failCommerce' | 'failProcessing'>;

/** Number of failures of a return of the kind `fails`; in practice it always fails. */
const ALWAYS = 1_000_000;

/** Reads the ledger of the embedded commerce provider, and can make it fail. */
export function commerceControls(pool: pg.Pool): CommerceControls {
  const commerce = createEmbeddedCommerce(pool);
  return {
    async commerceOf(returnId) {
      const { orders, giftCards, refunds } = await commerce.ordersOf(returnId);
      return {
        orders: orders.map(recordOf),
        gift_cards: giftCards.map(recordOf),
        refunds: refunds.map(recordOf),
      };
    },
    failCommerce: (o) => commerce.failNext(o),
    failProcessing: (_shopId, returnId) =>
      commerce.failNext({ returnId, kind: 'final', times: ALWAYS }),
  };
}

function recordOf(entry: LedgerEntry): CommerceRecord {
  return {
    id: Number(entry.id),
    amount: entry.amount,
    currency: entry.currency,
    idempotency_key: entry.idempotencyKey,
    calls: entry.calls,
    additional_details: entry.additionalDetails,
  };
}
