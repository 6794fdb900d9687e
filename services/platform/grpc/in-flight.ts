import { MethodOptions_IdempotencyLevel as Idempotency } from '@bufbuild/protobuf/wkt';
import type { HandlerContext, Interceptor } from '@connectrpc/connect';
import { overloaded } from '../errors.ts';
import { createPermits, type Permits, type Release } from '../permits.ts';

/** Bounds the calls that a server works on. */
export interface InFlight {
  /** Counts a call until its answer is out and its handler done. @throws ConnectError OVERLOADED. */
  enter(context: HandlerContext): void;
  /** Sees when handlers are done: that of a caller who left may go on. */
  readonly interceptor: Interceptor;
}

/** A call that is counted. */
interface Call {
  readonly release: Release;
  isHandling: boolean;
}

/** The calls of one kind are refused at once beyond the bound: the pools behind have queues of their own. */
const NO_QUEUE = { maxWaiting: 0, waitMs: 0 };

/**
 * Bounds the calls in flight, those that only read apart from the others: writes that wait for a lock do
 * not keep reads out.
 *
 * @param size most calls of each of the two kinds.
 */
export function createInFlight(size: number): InFlight {
  const reads = createPermits({ size, ...NO_QUEUE });
  const writes = createPermits({ size, ...NO_QUEUE });
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
