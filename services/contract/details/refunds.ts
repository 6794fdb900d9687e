import { z } from 'zod';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { amount, knownId, known as knownText, time } from '../resources/answers.ts';
import { parseId } from '../resources/details-query.ts';
import { idNumber, iso, known, zero } from '../views/values.ts';

/** Refunds that processing made, in the two shapes of return details. */

export const refund = z
  .object({
    gateway: knownText(),
    amount: amount(),
    currency: knownText(),
    provider_refund_id: knownText(),
    provider: knownText(),
  })
  .meta({ id: 'Refund' });

export const providerRefund = z
  .object({
    id: z.int(),
    return_id: z.int(),
    provider_refund_id: knownId(),
    provider_created_at: time(),
    created_at: time(),
    updated_at: time(),
  })
  .meta({ id: 'ProviderRefund' });

export function refundsView(ret: Return): z.infer<typeof refund>[] {
  return ret.refunds.map(({ gateway, provider, providerRefundId, money }) => ({
    gateway: known(gateway),
    amount: known(money?.value) ?? zero(ret.presentmentCurrency),
    currency: known(money?.currency),
    provider_refund_id: known(providerRefundId),
    provider: known(provider),
  }));
}

/** This shape has the provider's refund id as a number; an id that is not numeric is unknown. */
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
