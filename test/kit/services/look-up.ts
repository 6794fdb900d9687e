import type pg from 'pg';
import type { CommerceProvider, FoundOrder } from '../../../services/commerce/provider.ts';
import { submitReturn } from '../../../services/returns/submit/submit.ts';
import { returnRequest, type SubmissionPart, submission } from '../builders.ts';
import { submitDeps } from './processing.ts';

// Submissions by the name of an order that a shop's provider looks up.

export const mug = {
  id: 9001n,
  title: 'Mug',
  sku: 'MUG-1',
  productId: 3n,
  variantId: 5n,
  quantity: 3,
  returnable: 2,
  paid: {
    shop: { price: 3_300n, discount: 600n, tax: 300n },
    presentment: { price: 5_115n, discount: 930n, tax: 465n },
  },
  left: { units: 2 },
};
export const hat = { ...mug, id: 9002n, title: 'Hat', sku: 'HAT', variantId: undefined };
export const sold = { ...mug, id: 9003n, title: 'Sold', sku: 'SOLD', returnable: 0 };
export const ORDER: FoundOrder = {
  id: 445n,
  name: '#1001',
  currencies: { shop: 'GBP', presentment: 'JPY' },
  lines: [mug, hat, sold],
};

/** Submits a return of the order #1001. */
export function submitByName(
  o: { readonly pool: pg.Pool; readonly shopId: bigint; readonly provider: CommerceProvider },
  more: SubmissionPart = {},
) {
  const byName = { order: { name: '#1001' }, currency: '', lines: [], ...more };
  return submitReturn(submitDeps(o.pool, o.provider), submission(returnRequest(o.shopId, byName)));
}
