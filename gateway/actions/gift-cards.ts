import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { GiftCard } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { GiftCardBody } from '../../services/contract/resources/gift-card.ts';
import { type ActionContext, callerOf, sent } from './context.ts';

/**
 * Records the gift card that was issued for a return.
 *
 * @param o.key idempotency key of at most 200 characters; a repeat with the same key returns the first card.
 */
export async function recordGiftCard(
  context: ActionContext,
  body: GiftCardBody,
  o: { readonly returnId: bigint; readonly key: string },
): Promise<GiftCard> {
  const { giftCard } = await context.services.returns.recordGiftCard({
    ...callerOf(context),
    returnId: o.returnId,
    idempotencyKey: o.key,
    providerOrderId: BigInt(body.order_id),
    name: body.order_name ?? '',
    amount: body.amount,
    currency: body.currency,
    ...(body.issued_at && { issuedAt: timestampFromDate(body.issued_at) }),
  });
  return sent(giftCard, 'gift card');
}
