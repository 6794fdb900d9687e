import { setTimeout as sleep } from 'node:timers/promises';
import { MethodOptions_IdempotencyLevel as Idempotency } from '@bufbuild/protobuf/wkt';
import { Code, ConnectError, type Interceptor } from '@connectrpc/connect';

const MAX_ATTEMPTS = 3;

/** Pause before the second attempt; doubled before the third. Milliseconds. */
const FIRST_PAUSE_MS = 50;

/**
 * Client interceptor: tries a call again when the service is UNAVAILABLE, by then on another pod.
 *
 * UNAVAILABLE does not promise that the call never ran, so only RPCs that the contract marks with
 * `idempotency_level` are repeated, within the deadline of the call. The retries of grpc-js are not
 * enough: they end with the first response headers, which a Connect server sends before any error.
 */
export function retryIdempotent(): Interceptor {
  return (next) => async (req) => {
    const repeatable = req.method.idempotency !== Idempotency.IDEMPOTENCY_UNKNOWN;
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

async function pause(attempt: number, signal: AbortSignal): Promise<void> {
  const ceiling = FIRST_PAUSE_MS * 2 ** (attempt - 1);
  const ms = ceiling / 2 + (Math.random() * ceiling) / 2;
  await sleep(ms, undefined, { signal }).catch(() => {
    // Given up: the next attempt fails at once with the reason.
  });
}
