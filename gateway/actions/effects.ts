import type { Effect } from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { type ActionContext, callerOf } from './context.ts';

/** Returns what processing requested of the commerce provider for a return. Rejects with NOT_FOUND without the return. */
export async function listEffects(context: ActionContext, returnId: bigint): Promise<Effect[]> {
  const call = { ...callerOf(context), returnId };
  return (await context.services.commerce.listEffects(call)).effects;
}
