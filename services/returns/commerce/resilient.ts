import {
  bulkhead,
  circuitBreaker,
  handleWhen,
  type IPolicy,
  SamplingBreaker,
  TimeoutStrategy,
  timeout,
  wrap,
} from 'cockatiel';
import { BooksUnavailable, CommerceFailure, type CommerceProvider, isFinal } from './provider.ts';

/** Calls at the provider at once, and those that may wait for a place. */
const CONCURRENT_CALLS = 32;
const WAITING_CALLS = 256;
/** Longest single call; the lease of its job is renewed meanwhile. Milliseconds. */
const CALL_TIMEOUT_MS = 8_000;
/** The circuit opens when half of the calls of the window failed, and the provider is in real use. */
const WINDOW_MS = 30_000;
const FAILED_SHARE = 0.5;
const CALLS_PER_SECOND = 2;
const RETRY_CIRCUIT_AFTER_MS = 5_000;

/**
 * Bounds every call to a provider: at most so many at once, each with a deadline, and a circuit
 * that spares a provider which fails throughout. What these refuse is a passing failure. An outage of
 * our own database passes through, and says nothing about the provider.
 */
export function resilient(
  provider: CommerceProvider,
  o: { timeoutMs?: number } = {},
): CommerceProvider {
  const passing = handleWhen((error) => !isFinal(error) && !(error instanceof BooksUnavailable));
  const breaker = circuitBreaker(passing, {
    halfOpenAfter: RETRY_CIRCUIT_AFTER_MS,
    breaker: new SamplingBreaker({
      threshold: FAILED_SHARE,
      duration: WINDOW_MS,
      minimumRps: CALLS_PER_SECOND,
    }),
  });
  const deadline = timeout(o.timeoutMs ?? CALL_TIMEOUT_MS, TimeoutStrategy.Aggressive);
  // The bulkhead is outermost: its own refusals say nothing about the provider.
  const policy = wrap(bulkhead(CONCURRENT_CALLS, WAITING_CALLS), breaker, deadline);
  return {
    createExchangeOrder: (request, signal) =>
      guarded(policy, signal, (inner) => provider.createExchangeOrder(request, inner)),
    issueGiftCard: (request, signal) =>
      guarded(policy, signal, (inner) => provider.issueGiftCard(request, inner)),
    createRefund: (request, signal) =>
      guarded(policy, signal, (inner) => provider.createRefund(request, inner)),
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
    if (error instanceof CommerceFailure || error instanceof BooksUnavailable) throw error;
    throw new CommerceFailure('passing', 'the commerce provider did not answer', { cause: error });
  }
}
