import { MethodOptions_IdempotencyLevel as Idempotency } from '@bufbuild/protobuf/wkt';
import type { HandlerContext, Interceptor } from '@connectrpc/connect';
import { overloaded } from '../errors.ts';
import { Permits, type Release } from '../permits.ts';

/** Limits the number of calls that a server handles at the same time. */
export interface InFlight {
  /** Counts a call until its response is sent and its handler has ended. @throws ConnectError OVERLOADED. */
  enter(context: HandlerContext): void;
  /** Detects the end of handlers. A handler may continue after its caller disconnected. */
  readonly interceptor: Interceptor;
}

/** A counted call. */
interface Call {
  readonly release: Release;
  isHandling: boolean;
}

/** Calls over the limit are rejected immediately, because the connection pools already have queues. */
const NO_QUEUE = { maxWaiting: 0, waitMs: 0 };

/**
 * Limits the calls in flight. Reads have their own limit, so that writes which wait for a lock do not block reads.
 *
 * @param size maximum number of reads, and maximum number of other calls.
 */
export function createInFlight(size: number): InFlight {
  const reads = new Permits({ size, ...NO_QUEUE });
  const writes = new Permits({ size, ...NO_QUEUE });
  const calls = new WeakMap<AbortSignal, Call>();

  return {
    enter({ method, signal }) {
      const permits: Permits = method.idempotency === Idempotency.NO_SIDE_EFFECTS ? reads : writes;
      const release = permits.tryTake();
      if (!release) throw overloaded();
      const call = { release, isHandling: false };
      calls.set(signal, call);
      const onEnd = (): void => {
        if (!call.isHandling) release();
      };
      if (signal.aborted) onEnd();
      else signal.addEventListener('abort', onEnd, { once: true });
    },
    interceptor: (next) => async (req) => {
      const call = calls.get(req.signal);
      if (!call) return next(req);
      call.isHandling = true;
      try {
        return await next(req);
      } finally {
        call.isHandling = false;
        if (req.signal.aborted) call.release();
      }
    },
  };
}
