import { Router } from 'express';
import { z } from 'zod';
import type { EmbeddedCommerce, LedgerEntry } from '../../../services/returns/commerce/embedded.ts';
import { parsed } from './error.ts';

const id = z.coerce.bigint().positive();
const failure = z.object({
  return_id: z.number().int().positive(),
  kind: z.enum(['passing', 'final']),
  times: z.number().int().min(0).max(1_000_000).default(1),
});

/** Shows the ledger of the embedded commerce provider, and can make it fail. */
export function commerceRoutes(commerce: EmbeddedCommerce): Router {
  const router = Router();
  router.get('/commerce/orders', async (req, res) => {
    const ledger = await commerce.ordersOf(parsed(id, req.query.return_id));
    res.json({
      orders: ledger.orders.map(entryOf),
      gift_cards: ledger.giftCards.map(entryOf),
      refunds: ledger.refunds.map(entryOf),
      restocks: ledger.restocks.map(entryOf),
      cancellations: ledger.cancellations.map(entryOf),
    });
  });
  router.post('/commerce/fail', async (req, res) => {
    const { return_id, kind, times } = parsed(failure, req.body);
    await commerce.failNext({ returnId: BigInt(return_id), kind, times });
    res.status(204).end();
  });
  return router;
}

function entryOf(entry: LedgerEntry) {
  return {
    id: Number(entry.id),
    amount: entry.amount,
    currency: entry.currency,
    idempotency_key: entry.idempotencyKey,
    calls: entry.calls,
    additional_details: entry.additionalDetails,
  };
}
