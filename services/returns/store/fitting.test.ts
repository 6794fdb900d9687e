import { create, toBinary } from '@bufbuild/protobuf';
import { expect, test } from '@jest/globals';
import { ReturnSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { ApplyAssessmentsResponseSchema } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { MAX_MESSAGE_BYTES } from '../../platform/grpc/limits.ts';
import { fittingReturns } from './fitting.ts';

const sized = (id: bigint, bytes: number) =>
  create(ReturnSchema, { id, packageReference: 'x'.repeat(bytes) });

test('omits returns that do not fit into one response', () => {
  const returns = fittingReturns([
    sized(1n, 20 * 2 ** 20),
    sized(2n, 14 * 2 ** 20),
    sized(3n, 12 * 2 ** 20),
    sized(4n, 2 ** 20),
  ]);
  expect(returns.map(({ id }) => id)).toEqual([1n, 3n]);
  const answer = toBinary(
    ApplyAssessmentsResponseSchema,
    create(ApplyAssessmentsResponseSchema, { returns }),
  );
  expect(answer.length).toBeLessThanOrEqual(MAX_MESSAGE_BYTES);
});

test('keeps all returns that fit', () => {
  const returns = [sized(1n, 1_000), sized(2n, 1_000)];
  expect(fittingReturns(returns)).toEqual(returns);
});
