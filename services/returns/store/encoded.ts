import { create, toBinary } from '@bufbuild/protobuf';
import { type Return, ReturnSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';

/**
 * A return at one revision, encoded as bytes. Encoding is the most expensive part of an event, so each return is
 * encoded once.
 */
export interface EncodedReturn {
  readonly shopId: bigint;
  readonly id: bigint;
  readonly revision: bigint;
  /** A whole rms.returns.v1.Return, encoded. */
  readonly bytes: Uint8Array;
  /** The return from which the bytes were made. */
  readonly of: Return;
  /** Whether `bytes` and `of` have hashes instead of long texts. An event must not have such a snapshot. */
  readonly isHashed?: boolean;
}

/**
 * Encodes the details without revision, `updated_at` and `processing`. When these bytes are different before and after
 * a change, `return.updated` is sent. The submitter is not encoded, because events do not have it.
 */
export function encodeDetails(details: Return): Uint8Array {
  const { updatedAt: _, submitter: __, ...rest } = details;
  return toBinary(ReturnSchema, { ...rest, revision: 0n, processing: false });
}

/**
 * Encodes a return: its details, then the fields that {@link encodeDetails} leaves out.
 *
 * @param details the result of {@link encodeDetails}, if the caller has it already.
 * @see https://protobuf.dev/programming-guides/encoding/#last-one-wins parts of a message may be concatenated
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
