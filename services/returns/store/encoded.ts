import { create, toBinary } from '@bufbuild/protobuf';
import { type Return, ReturnSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';

/** A return at one revision, as bytes: encoding is what an event costs most, and is done once. */
export interface EncodedReturn {
  readonly shopId: bigint;
  readonly id: bigint;
  readonly revision: bigint;
  /** A whole rms.returns.v1.Return. */
  readonly bytes: Uint8Array;
  /** The same, not encoded. */
  readonly of: Return;
  /** Its long texts are hashes, in both forms: no event may carry it. */
  readonly isHashed?: boolean;
}

/** What a change is judged by: everything but the revision, its time, and whether processing is queued. */
export function encodeDetails(of: Return): Uint8Array {
  const { updatedAt: _, ...rest } = of;
  return toBinary(ReturnSchema, { ...rest, revision: 0n, processing: false });
}

/**
 * @param details what {@link encodeDetails} made of it, where that is known.
 * @see https://protobuf.dev/programming-guides/encoding/#last-one-wins a message may be put together from parts
 */
export function encodeReturn(of: Return, details = encodeDetails(of)): EncodedReturn {
  const { shopId, id, revision, processing, updatedAt } = of;
  const rest = create(ReturnSchema, { revision, processing, ...(updatedAt && { updatedAt }) });
  return {
    shopId,
    id,
    revision,
    bytes: Buffer.concat([details, toBinary(ReturnSchema, rest)]),
    of,
  };
}
