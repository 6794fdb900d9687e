import { z } from 'zod';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { parseId } from '../../platform/ids.ts';
import { amount, means, nullableId, nullableText, time } from '../resources/response-fields.ts';
import { idNumber, iso, textOrNull, zero } from '../views/values.ts';

/** Refunds that processing made, in the two shapes of return details. */

/** The fields that both lists of refunds have. */
export const refundFields = {
  gateway: means(nullableText(), 'Payment gateway of the refund; null when unknown'),
  provider: means(nullableText(), 'Commerce provider that made the refund'),
  amount: means(amount(), 'Refunded amount, in `currency`'),
  currency: means(nullableText(), 'Currency that the shopper paid in, an ISO 4217 code'),
};

export const refund = z
  .object({
    gateway: refundFields.gateway,
    amount: refundFields.amount,
    currency: refundFields.currency,
    provider_refund_id: means(
      nullableText(),
      'Identifier of the refund at the commerce provider, as text',
    ),
    provider: refundFields.provider,
  })
  .meta({ id: 'Refund' });

export const providerRefund = z
  .object({
    id: means(z.int(), 'Identifier of the refund in this service'),
    return_id: means(z.int(), 'The return that was refunded'),
    provider_refund_id: means(
      nullableId(),
      'Identifier of the refund at the commerce provider; null when it is not numeric',
    ),
    provider_created_at: means(time(), 'When the commerce provider made the refund'),
    created_at: means(time(), 'When the refund was recorded here'),
    updated_at: means(time(), 'When this record last changed'),
  })
  .meta({ id: 'ProviderRefund' });

export function refundsView(ret: Return): z.infer<typeof refund>[] {
  return ret.refunds.map(({ gateway, provider, providerRefundId, money }) => ({
    gateway: textOrNull(gateway),
    amount: textOrNull(money?.value) ?? zero(ret.presentmentCurrency),
    currency: textOrNull(money?.currency),
    provider_refund_id: textOrNull(providerRefundId),
    provider: textOrNull(provider),
  }));
}

/** The list in which the provider's refund id is a number. An id that is not numeric counts as unknown. */
export function providerRefundsView(ret: Return): z.infer<typeof providerRefund>[] {
  return ret.refunds.map((one) => ({
    id: Number(one.id),
    return_id: Number(ret.id),
    provider_refund_id: idNumber(parseId(one.providerRefundId) ?? 0n),
    provider_created_at: iso(one.providerCreatedAt),
    created_at: iso(one.createdAt),
    updated_at: iso(one.updatedAt),
  }));
}
