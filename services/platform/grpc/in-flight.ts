import { MethodOptions_IdempotencyLevel as Idempotency } from '@bufbuild/protobuf/wkt';
import type { HandlerContext, Interceptor } from '@connectrpc/connect';
import { overloaded } from '../errors.ts';
import { Permits, type Release } from '../permits.ts';

/** Limits the number of calls that a server handles at the same time. */
export interface InFlight {
  /**
   * Counts a call until its response is sent and its handler has ended. @throws ConnectError OVERLOADED above the
   * limit.
   */
  enter(context: HandlerContext): void;
  /** Notes when handlers end. A handler may continue after its caller has disconnected. */
  readonly interceptor: Interceptor;
}

/** A call that counts as in flight. */
interface Call {
  readonly release: Release;
  isHandling: boolean;
}

/** A call above the limit does not wait, because the connection pools already have queues. */
const NO_QUEUE = { maxWaiting: 0, waitMs: 0 };

/**
 * Limits the number of calls in flight. Reads have their own limit, so that writes that wait for a lock do not block
 * them.
 *
 * @param size maximum number of reads; also the maximum number of other calls.
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
