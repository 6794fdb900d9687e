import { randomUUID } from 'node:crypto';
import type { EffectKind, EffectRequest } from '../../../services/commerce/provider.ts';

/** A request of 12.50 pounds, with a key of its own. */
export function effectRequest(
  kind: EffectKind = 'refund',
  more: Partial<EffectRequest> = {},
): EffectRequest {
  return {
    kind,
    shopId: 7n,
    returnId: 8n,
    providerOrderId: 445n,
    orderName: '#1001',
    key: `rms:${randomUUID()}`,
    amount: '12.50',
    currency: 'GBP',
    items: [],
    lines: [],
    stock: [],
    orderToCancel: undefined,
    details: {},
    ...more,
  };
}
