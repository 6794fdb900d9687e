import { submission } from '../../../deploy/local/demo/submission.ts';
import type { System } from '../system/system.ts';
import { waitFor } from '../wait.ts';
import type { TrialShop } from './shop.ts';

/**
 * Submits exactly one return in a shop, the nth, and waits for its response. More returns would cause additional
 * deliveries and retries.
 *
 * @throws OverdueError when there is no response in time.
 */
export async function submitOnce(
  { services }: System,
  shop: TrialShop,
  { withinMs, nth = 0 }: { readonly withinMs: number; readonly nth?: number },
): Promise<void> {
  const submit = async (): Promise<true> => {
    // A repeat with the same key creates no second return.
    const key = `faults-${shop.id}-once-${nth}`;
    const request = submission(shop, { key, serial: shop.id * 100 + nth, lines: 1 });
    await services.returns.submitReturn(request);
    return true;
  };
  await waitFor(submit, { what: 'a return is submitted', withinMs });
}
