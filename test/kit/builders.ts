import { randomInt, randomUUID } from 'node:crypto';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  type LineInputSchema,
  Outcome,
  SubmitReturnRequestSchema,
} from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { actor } from './services/running-service.ts';

// Valid messages. A test overrides the fields that matter to it.

/** The fields of a message as a plain object. */
export type Fields<T> = Omit<Exclude<T, { $unknown?: unknown }>, '$typeName'>;
export type SubmissionPart = Partial<
  Fields<Exclude<MessageInitShape<typeof SubmitReturnRequestSchema>, never>>
>;

export function newId(): bigint {
  return BigInt(randomInt(1, 2 ** 47));
}

/** A line item of 20.00. */
export function plainLine() {
  return {
    providerLineItemId: newId(),
    lineItemTitle: 'Scarf',
    quantity: 2,
    price: { shop: '20.00' },
  };
}

/** A line item of 20.00, unless `more` overrides it. */
export function line(
  more: Partial<Fields<MessageInitShape<typeof LineInputSchema>>> = {},
): MessageInitShape<typeof LineInputSchema> {
  return { ...plainLine(), ...more };
}

/** A request for a return of one line item of 20.00 pounds that is refunded, unless `more` overrides it. */
export function returnRequest(shopId: bigint, more: SubmissionPart = {}) {
  return {
    shopId,
    actor,
    idempotencyKey: randomUUID(),
    order: { providerOrderId: newId(), name: '#1001' },
    currency: 'GBP',
    outcome: Outcome.REFUND,
    lines: [line()],
    ...more,
  };
}

/** A new message each time, so that a test may change it. */
export const submission = (init: MessageInitShape<typeof SubmitReturnRequestSchema>) =>
  create(SubmitReturnRequestSchema, init);
