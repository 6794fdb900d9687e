import { AsyncLocalStorage } from 'node:async_hooks';
import type { Interceptor } from '@connectrpc/connect';

/** For whom the present work is done: the signal aborts when the caller leaves or its deadline passes. */
const callers = new AsyncLocalStorage<AbortSignal | undefined>();

/** Does work on behalf of a caller: what it begins at the database or another service may end with the caller. */
export function forCaller<T>(caller: AbortSignal, work: () => T): T {
  return callers.run(caller, work);
}

/** Does work that goes on when the caller leaves, such as what several callers share. */
export function forNobody<T>(work: () => T): T {
  return callers.run(undefined, work);
}

/** Aborts when the caller leaves; undefined for work of our own. */
export function presentCaller(): AbortSignal | undefined {
  return callers.getStore();
}

/** Server interceptor: handlers work for the call's caller, until its deadline. */
export function callerScope(): Interceptor {
  return (next) => (req) => forCaller(req.signal, () => next(req));
}
