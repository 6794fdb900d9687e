import { LeaseLost } from './lease-lost.ts';
import type { Logger } from './log.ts';
import { startLoop, type Worker } from './worker.ts';

export interface HeartbeatOptions<L> {
  /** Name of the heartbeat in logs. */
  readonly name: string;
  readonly logger: Logger;
  readonly leaseMs: number;
  /** Renews leases. Returns those that are lost. */
  readonly renew: (leases: readonly L[]) => Promise<readonly L[]>;
}

export interface Heartbeat<L> {
  /**
   * Renews the leases while the work runs. The signal of the work aborts when `signal` aborts. It aborts with LeaseLost
   * when one of the leases is lost.
   */
  during<T>(
    leases: readonly L[],
    o: { readonly signal?: AbortSignal; readonly work: (signal: AbortSignal) => Promise<T> },
  ): Promise<T>;
}

/** How often a lease is renewed before it would expire, so that one failed renewal does not lose it. */
const RENEWALS_PER_LEASE = 4;

/** Creates a heartbeat. It renews all leases in use with one statement, and does nothing while no lease is in use. */
export function createHeartbeat<L>({
  name,
  logger,
  leaseMs,
  renew,
}: HeartbeatOptions<L>): Heartbeat<L> {
  const owned = new Map<L, AbortController>();
  let loop: Worker | undefined;

  async function renewAll(): Promise<'idle'> {
    const lost = await renew([...owned.keys()]);
    for (const lease of lost) owned.get(lease)?.abort(new LeaseLost(name));
    return 'idle';
  }

  return {
    async during(leases, { signal, work }) {
      const lost = new AbortController();
      for (const lease of leases) owned.set(lease, lost);
      const everyMs = leaseMs / RENEWALS_PER_LEASE;
      loop ??= startLoop({ name, logger, idleMs: everyMs, delayMs: everyMs, step: renewAll });
      try {
        return await work(signal ? AbortSignal.any([signal, lost.signal]) : lost.signal);
      } finally {
        for (const lease of leases) owned.delete(lease);
        if (owned.size === 0) {
          const last = loop;
          loop = undefined;
          await last?.stop();
        }
      }
    },
  };
}
