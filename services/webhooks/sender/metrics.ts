import type { Meter } from '@opentelemetry/api';
import type { Pool } from './pool.ts';

export interface SenderMetrics {
  /** Counts a request that was sent again on a new connection, because the receiver had closed the idle one. */
  requestResent(): void;
  /** Counts an attempt whose address is not allowed. `url`: by its text. `connect`: after its name was resolved. */
  notAllowed(stage: 'url' | 'connect'): void;
  opened(): void;
  /** Counts an attempt that was not made because this process has no socket left. @param code such as `EMFILE`. */
  noSocketLeft(code: string): void;
}

/** Creates the metrics of connections and of addresses that are not allowed. */
export function senderMetrics(meter: Meter, pool: Pool): SenderMetrics {
  const again = meter.createCounter('webhooks.requests_resent', {
    description: 'Requests that were sent again on a new connection because a kept one was closed',
  });
  const notAllowed = meter.createCounter('webhooks.addresses_refused', {
    description: 'Attempts that were not made because their address is not allowed, by stage',
  });
  const opened = meter.createCounter('webhooks.connections_opened', {
    description: 'Connections to receivers opened',
  });
  const noSocketLeft = meter.createCounter('webhooks.sockets_exhausted', {
    description:
      'Attempts that were not made because this process had no socket left, by error code',
  });
  meter
    .createObservableGauge('webhooks.connections', { description: 'Connections to receivers' })
    .addCallback((result) => {
      result.observe(pool.idle(), { state: 'idle' });
      result.observe(pool.busy(), { state: 'busy' });
    });
  return {
    requestResent: () => again.add(1),
    notAllowed: (stage) => notAllowed.add(1, { stage }),
    opened: () => opened.add(1),
    noSocketLeft: (code) => noSocketLeft.add(1, { code }),
  };
}
