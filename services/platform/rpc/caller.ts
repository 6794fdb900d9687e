import { AsyncLocalStorage } from 'node:async_hooks';
import type { Interceptor } from '@connectrpc/connect';

/**
 * The caller of the current work, as a signal. The signal aborts when the caller disconnects or its deadline passes.
 */
const callers = new AsyncLocalStorage<AbortSignal | undefined>();

/** Runs work for a caller. Its statements, and its calls to other services, may end when the caller disconnects. */
export function forCaller<T>(caller: AbortSignal, work: () => T): T {
  return callers.run(caller, work);
}

/** Runs work that continues when the caller disconnects. An example is work that several callers share. */
export function withoutCaller<T>(work: () => T): T {
  return callers.run(undefined, work);
}

/** Returns a signal that aborts when the caller disconnects; undefined for work without a caller. */
export function currentCaller(): AbortSignal | undefined {
  return callers.getStore();
}

/** Server interceptor: runs the handler as work for the caller, until the caller's deadline. */
export function callerScope(): Interceptor {
  return (next) => (req) => forCaller(req.signal, () => next(req));
}
