import { toBinary } from '@bufbuild/protobuf';
import { type Return, ReturnSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { MAX_MESSAGE_BYTES } from '../../platform/grpc/limits.ts';

/** What tags and lengths add to a return inside an answer. Bytes. */
const ROOM_EACH = 16;

/**
 * As many returns, in order, as one answer has room for. A change of a few lines concerns whole
 * returns, and thirty lines may lie in as many: the change must not fail for the size of its echo.
 *
 * @param room bytes.
 */
export function fitting(returns: readonly Return[], room = MAX_MESSAGE_BYTES): Return[] {
  let left = room;
  return returns.filter((one) => {
    const size = toBinary(ReturnSchema, one).length + ROOM_EACH;
    const fits = size <= left;
    if (fits) left -= size;
    return fits;
  });
}
