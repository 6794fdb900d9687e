import {
  bulkhead,
  circuitBreaker,
  handleWhen,
  type IPolicy,
  isBrokenCircuitError,
  isBulkheadRejectedError,
  SamplingBreaker,
  TimeoutStrategy,
  timeout,
  wrap,
} from 'cockatiel';
import { CommerceFailure, type CommerceProvider, isFinal, LedgerUnavailable } from './provider.ts';

/** Maximum number of concurrent calls to the provider, and of calls that wait. */
const CONCURRENT_CALLS = 32;
const WAITING_CALLS = 256;
/** Timeout of one call. During the call, the worker renews the lease of the job. Milliseconds. */
const CALL_TIMEOUT_MS = 8_000;
/** The circuit opens when half of the calls in the window failed and there were enough calls. */
const WINDOW_MS = 30_000;
const FAILED_SHARE = 0.5;
const CALLS_PER_SECOND = 0.3;
const RETRY_CIRCUIT_AFTER_MS = 5_000;

/**
 * Limits the number of calls to a provider and the duration of each call. A circuit breaker stops the calls to a
 * provider that fails. A call that one of these limits rejects is a `passing` failure. An outage of the ledger does not
 * count as a failure of the provider.
 */
export function resilient(
  provider: CommerceProvider,
  o: { timeoutMs?: number } = {},
): CommerceProvider {
  const passing = handleWhen((error) => !isFinal(error) && !(error instanceof LedgerUnavailable));
  const breaker = circuitBreaker(passing, {
    halfOpenAfter: RETRY_CIRCUIT_AFTER_MS,
    breaker: new SamplingBreaker({
      threshold: FAILED_SHARE,
      duration: WINDOW_MS,
      minimumRps: CALLS_PER_SECOND,
    }),
  });
  const deadline = timeout(o.timeoutMs ?? CALL_TIMEOUT_MS, TimeoutStrategy.Aggressive);
  // The bulkhead is outside of the circuit breaker, so that its rejections do not open the circuit.
  const policy = wrap(bulkhead(CONCURRENT_CALLS, WAITING_CALLS), breaker, deadline);
  const { lookUp } = provider;
  return {
    settledAfterMs: provider.settledAfterMs,
    ...(provider.repeatableForMs && { repeatableForMs: provider.repeatableForMs }),
    ...(lookUp && {
      lookUp: (order, signal) => guarded(policy, signal, (inner) => lookUp(order, inner)),
    }),
    create: (request, signal) =>
      guarded(policy, signal, (inner) => provider.create(request, inner)),
    find: (request, signal) => guarded(policy, signal, (inner) => provider.find(request, inner)),
    list: (request, signal) => guarded(policy, signal, (inner) => provider.list(request, inner)),
  };
}

async function guarded<T>(
  policy: IPolicy<{ signal: AbortSignal }>,
  signal: AbortSignal,
  call: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  try {
    return await policy.execute((context) => call(context.signal), signal);
  } catch (error) {
    if (error instanceof CommerceFailure || error instanceof LedgerUnavailable) throw error;
    const isUnsent = isBrokenCircuitError(error) || isBulkheadRejectedError(error);
    throw new CommerceFailure('passing', 'the commerce provider did not respond', {
      cause: error,
      isUnsent,
    });
  }
}
