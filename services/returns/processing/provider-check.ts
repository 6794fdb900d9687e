import type { Counter, Meter } from '@opentelemetry/api';
import type { Logger } from '../../platform/log.ts';
import type { Queryable } from '../../platform/postgres.ts';
import { loadSettings } from '../settings.ts';

/** Why a shop's returns are not processed. Follows "The return cannot be processed: ". */
export const NO_PROVIDER =
  'the shop has no commerce provider that moves money. The embedded provider is for sandbox shops only';

export interface ProviderCheck {
  /** Whether the shop has a commerce provider. If not, counts and logs the return. */
  allows(
    db: Queryable,
    of: { readonly shopId: bigint; readonly returnId: bigint },
  ): Promise<boolean>;
}

/** For a provider that moves money, and outside production: every shop has a provider. */
export const EVERY_SHOP: ProviderCheck = { allows: async () => true };

/** For the embedded provider in production: only sandbox shops have a provider. It would close others' returns unpaid. */
export function sandboxShopsOnly(o: {
  readonly logger: Logger;
  readonly meter: Meter;
}): ProviderCheck {
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
