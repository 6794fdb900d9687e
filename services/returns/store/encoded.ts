import { create, toBinary } from '@bufbuild/protobuf';
import { type Return, ReturnSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';

/** A return at one revision, as bytes. Encoding is the most expensive part of an event, so it is done once. */
export interface EncodedReturn {
  readonly shopId: bigint;
  readonly id: bigint;
  readonly revision: bigint;
  /** A whole rms.returns.v1.Return. */
  readonly bytes: Uint8Array;
  /** The return that was encoded. */
  readonly of: Return;
  /** Both forms have hashes instead of long texts, so no event may carry them. */
  readonly isHashed?: boolean;
}

/** The details that decide whether a return changed: everything except its revision, its time and `processing`. */
export function encodeDetails(of: Return): Uint8Array {
  const { updatedAt: _, ...rest } = of;
  return toBinary(ReturnSchema, { ...rest, revision: 0n, processing: false });
}

/**
 * @param details the result of {@link encodeDetails}, if the caller has it.
 * @see https://protobuf.dev/programming-guides/encoding/#last-one-wins a message may be concatenated from parts
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
