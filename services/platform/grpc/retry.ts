import { MethodOptions_IdempotencyLevel as Idempotency } from '@bufbuild/protobuf/wkt';
import { Code, ConnectError, type Interceptor, type UnaryRequest } from '@connectrpc/connect';
import { createBackoff, equalJitter, retry } from '../backoff.ts';
import { isOverloaded } from '../errors.ts';

const MAX_ATTEMPTS = 3;

/** Pauses before the second and the third attempt. */
const BACKOFF = createBackoff({ firstMs: 50, longestMs: 100, jitter: equalJitter });

/**
 * The budget for retries of a client: the maximum number of saved retries, and the part of a retry that each call adds.
 * When every call fails, the client retries one call in ten. So retries do not multiply the load on a service that is
 * recovering.
 */
const BUDGET = 20;
const BUDGET_PER_CALL = 0.1;

/**
 * Client interceptor: retries a call when the service is UNAVAILABLE. The retry usually reaches another pod.
 *
 * UNAVAILABLE does not prove that the call never ran. So only two kinds of calls are retried, within their deadline:
 * RPCs that the contract marks with `idempotency_level`, and calls with an idempotency key. A call to an overloaded
 * service is not retried here; the caller may try it again later.
 *
 * The retries of grpc-js are not enough. They end with the first response headers, and a Connect server sends headers
 * before any error.
 */
export function retryIdempotent(): Interceptor {
  let budget = BUDGET;
  return (next) => (req) => {
    const repeatable =
      req.method.idempotency !== Idempotency.IDEMPOTENCY_UNKNOWN || (!req.stream && hasKey(req));
    budget = Math.min(BUDGET, budget + BUDGET_PER_CALL);
    const mayRetry = (error: unknown, failures: number): boolean => {
      if (!repeatable || !isTransient(error) || failures === MAX_ATTEMPTS || budget < 1)
        return false;
      budget -= 1;
      return true;
    };
    // After an abort of the signal, the next attempt fails immediately with the signal's reason.
    return retry(() => next(req), { backoff: BACKOFF, isTransient: mayRetry, signal: req.signal });
  };
}

function isTransient(error: unknown): boolean {
  const isUnavailable = error instanceof ConnectError && error.code === Code.Unavailable;
  return isUnavailable && !isOverloaded(error);
}

/** Whether the message has an idempotency key. All such messages have the key in this field. */
function hasKey({ message }: UnaryRequest): boolean {
  const key: unknown = Reflect.get(message, 'idempotencyKey');
  return typeof key === 'string' && key !== '';
}
