import type { OperationId } from '../operation.ts';
import { CART_EXAMPLES } from './carts.ts';
import type { OperationExample } from './example.ts';
import { INSPECTION_EXAMPLES } from './inspections.ts';
import { LOGISTICS_EXAMPLES } from './logistics.ts';
import { RETURN_EXAMPLES } from './returns.ts';
import { REPLAY_EXAMPLES } from './webhook-replays.ts';
import { WEBHOOK_EXAMPLES } from './webhooks.ts';

/** The examples of every operation. Together they show what happens to one return of the demo shop. */
export const EXAMPLES: Readonly<Record<OperationId, OperationExample>> = {
  ...WEBHOOK_EXAMPLES,
  ...REPLAY_EXAMPLES,
  ...INSPECTION_EXAMPLES,
  ...LOGISTICS_EXAMPLES,
  ...RETURN_EXAMPLES,
  ...CART_EXAMPLES,
};
