import { AsyncLocalStorage } from 'node:async_hooks';
import type { Interceptor } from '@connectrpc/connect';

/** The caller of the current work. The signal aborts when the caller leaves or its deadline passes. */
const callers = new AsyncLocalStorage<AbortSignal | undefined>();

/** Runs work for a caller. Its statements and calls of other services may end when the caller leaves. */
export function forCaller<T>(caller: AbortSignal, work: () => T): T {
  return callers.run(caller, work);
}

/** Runs work that continues when the caller leaves, such as work that several callers share. */
export function withoutCaller<T>(work: () => T): T {
  return callers.run(undefined, work);
}

/** Aborts when the caller leaves; undefined for our own work. */
export function presentCaller(): AbortSignal | undefined {
  return callers.getStore();
}

/** Server interceptor: handlers run for the caller, until its deadline. */
export function callerScope(): Interceptor {
  return (next) => (req) => forCaller(req.signal, () => next(req));
}
