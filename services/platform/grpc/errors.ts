import type { MessageInitShape } from '@bufbuild/protobuf';
import { Code, ConnectError, type Interceptor } from '@connectrpc/connect';
import { ErrorInfoSchema } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { DomainError, isUnavailable, reasonOf } from '../errors.ts';
import type { Logger } from '../log.ts';
import { isOutage } from '../outage.ts';

/**
 * Server interceptor: converts the error of a handler to a gRPC status.
 *
 * A DomainError keeps its code, text, reason and field, also when another service threw it. An outage of the database
 * or of another service becomes UNAVAILABLE, and every other error INTERNAL. Both hide the cause from the caller and
 * log it. When the deadline has ended the work of the handler, the status is DEADLINE_EXCEEDED.
 */
export function errorInterceptor(logger: Logger): Interceptor {
  return (next) => async (req) => {
    try {
      return await next(req);
    } catch (error) {
      const rpc = `${req.service.typeName}/${req.method.name}`;
      const status = toStatus(error);
      // The caller disconnected, or its deadline passed, and its statement was cancelled. This is no outage, so do not
      // log it.
      const isStopped = status.code === Code.Unavailable || status.code === Code.Canceled;
      if (req.signal.aborted && isStopped) throw isOverdue(req.signal) ? req.signal.reason : status;
      if (status.code === Code.Unavailable) logger.warn({ err: error, rpc }, 'rpc unavailable');
      if (status.code === Code.Internal) logger.error({ err: error, rpc }, 'rpc failed');
      throw status;
    }
  };
}

function isOverdue({ reason }: AbortSignal): boolean {
  return reason instanceof ConnectError && reason.code === Code.DeadlineExceeded;
}

function toStatus(error: unknown): ConnectError {
  if (error instanceof DomainError) {
    const value: MessageInitShape<typeof ErrorInfoSchema> = {
      reason: error.reason,
      field: error.field,
    };
    const details = [{ desc: ErrorInfoSchema, value }];
    return new ConnectError(error.message, error.code, undefined, details, error);
  }
  if (error instanceof ConnectError && !error.isWireError) return error;
  if (error instanceof ConnectError && reasonOf(error) !== undefined) return error;
  if (isUnavailable(error) || isOutage(error))
    return new ConnectError('unavailable', Code.Unavailable);
  return new ConnectError('internal error', Code.Internal);
}
