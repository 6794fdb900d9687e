import { setTimeout as sleep } from 'node:timers/promises';
import { MethodOptions_IdempotencyLevel as Idempotency } from '@bufbuild/protobuf/wkt';
import { Code, ConnectError, type Interceptor, type UnaryRequest } from '@connectrpc/connect';

const MAX_ATTEMPTS = 3;

/** Pause before the second attempt; doubled before the third. Milliseconds. */
const FIRST_PAUSE_MS = 50;

/**
 * Client interceptor: tries a call again when the service is UNAVAILABLE, by then on another pod.
 *
 * UNAVAILABLE does not promise that the call never ran, so only RPCs that the contract marks with
 * `idempotency_level` are repeated, and calls that carry an idempotency key, within the deadline of the
 * call. The retries of grpc-js are not
 * enough: they end with the first response headers, which a Connect server sends before any error.
 */
export function retryIdempotent(): Interceptor {
  return (next) => async (req) => {
    const repeatable =
      req.method.idempotency !== Idempotency.IDEMPOTENCY_UNKNOWN || (!req.stream && hasKey(req));
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await next(req);
      } catch (error) {
        const away = error instanceof ConnectError && error.code === Code.Unavailable;
        if (!away || !repeatable || attempt === MAX_ATTEMPTS || req.signal.aborted) throw error;
        await pause(attempt, req.signal);
      }
    }
  };
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
