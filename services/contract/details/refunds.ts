import { z } from 'zod';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { parseId } from '../../platform/ids.ts';
import { amount, nullableId, nullableText, time } from '../resources/response-fields.ts';
import { idNumber, iso, textOrNull, zero } from '../views/values.ts';

/** Refunds that processing made, in the two shapes of return details. */

export const refund = z
  .object({
    gateway: nullableText(),
    amount: amount(),
    currency: nullableText(),
    provider_refund_id: nullableText(),
    provider: nullableText(),
  })
  .meta({ id: 'Refund' });

export const providerRefund = z
  .object({
    id: z.int(),
    return_id: z.int(),
    provider_refund_id: nullableId(),
    provider_created_at: time(),
    created_at: time(),
    updated_at: time(),
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

/** In this shape the provider's refund id is a number. An id that is not numeric counts as unknown. */
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
