import type { Counter, Meter } from '@opentelemetry/api';
import type { Logger } from '../../platform/log.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { loadSettings } from '../settings.ts';

/** Why a shop's returns are not processed, as the end of "the return cannot be processed: ". */
export const NO_PROVIDER =
  'the shop has no commerce provider, so no money would move. The embedded one serves sandbox shops only';

export interface ProviderGate {
  /** Whether the shop has a commerce provider. Counts and logs a refusal. */
  allows(
    db: Queryable,
    of: { readonly shopId: bigint; readonly returnId: bigint },
  ): Promise<boolean>;
}

/** Every shop has a provider: outside of production, or with a provider that moves money. */
export const EVERY_SHOP: ProviderGate = { allows: async () => true };

/** Only sandbox shops have a provider. In production the embedded one would close live returns without a payment. */
export function sandboxShopsOnly(o: {
  readonly logger: Logger;
  readonly meter: Meter;
}): ProviderGate {
  const refused: Counter = o.meter.createCounter('processing.refused', {
    description: 'Returns not processed because their shop has no commerce provider.',
  });
  return {
    async allows(db, { shopId, returnId }) {
      const { sandbox } = await loadSettings(db, shopId);
      if (sandbox) return true;
      refused.add(1, { reason: 'no_commerce_provider' });
      const fields = { shop: String(shopId), return: String(returnId) };
      o.logger.error(fields, 'return not processed: the shop has no commerce provider');
      return false;
    },
  };
}
