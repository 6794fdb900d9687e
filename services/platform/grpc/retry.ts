import { setTimeout as sleep } from 'node:timers/promises';
import { MethodOptions_IdempotencyLevel as Idempotency } from '@bufbuild/protobuf/wkt';
import { Code, ConnectError, type Interceptor, type UnaryRequest } from '@connectrpc/connect';
import { isOverloaded } from '../errors.ts';

const MAX_ATTEMPTS = 3;

/** Pause before the second attempt; doubled before the third. Milliseconds. */
const FIRST_PAUSE_MS = 50;

/**
 * Retries that a client may make at once, and what each call adds to them: when everything fails, retries
 * are a tenth of the calls, and do not multiply the load on a service that is coming back.
 */
const BUDGET = 20;
const BUDGET_PER_CALL = 0.1;

/**
 * Client interceptor: tries a call again when the service is UNAVAILABLE, by then on another pod.
 *
 * UNAVAILABLE does not promise that the call never ran, so only RPCs that the contract marks with
 * `idempotency_level` are repeated, and calls that carry an idempotency key, within the deadline of the
 * call. A service that refuses because it is overloaded is not asked again: that is for the caller to do,
 * later. The retries of grpc-js are not
 * enough: they end with the first response headers, which a Connect server sends before any error.
 */
export function retryIdempotent(): Interceptor {
  let budget = BUDGET;
  return (next) => async (req) => {
    const repeatable =
      req.method.idempotency !== Idempotency.IDEMPOTENCY_UNKNOWN || (!req.stream && hasKey(req));
    budget = Math.min(BUDGET, budget + BUDGET_PER_CALL);
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await next(req);
      } catch (error) {
        if (!repeatable || !isPassing(error) || attempt === MAX_ATTEMPTS) throw error;
        if (req.signal.aborted || budget < 1) throw error;
        budget -= 1;
        await pause(attempt, req.signal);
      }
    }
  };
}

function isPassing(error: unknown): boolean {
  const isUnavailable = error instanceof ConnectError && error.code === Code.Unavailable;
  return isUnavailable && !isOverloaded(error);
}

/** Whichever of the keyed creators it is: the field has this name in all of them. */
function hasKey({ message }: UnaryRequest): boolean {
  const key: unknown = Reflect.get(message, 'idempotencyKey');
  return typeof key === 'string' && key !== '';
}

async function pause(attempt: number, signal: AbortSignal): Promise<void> {
  const ceiling = FIRST_PAUSE_MS * 2 ** (attempt - 1);
  const ms = ceiling / 2 + (Math.random() * ceiling) / 2;
  await sleep(ms, undefined, { signal }).catch(() => {
    // Given up: the next attempt fails at once with the reason.
  });
}
