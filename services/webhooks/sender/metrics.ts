import type { Meter } from '@opentelemetry/api';
import type { Pool } from './pool.ts';

export interface SenderMetrics {
  /** A kept connection was closed, and the request was sent again on a new one. */
  requestResent(): void;
  /** An address that webhooks may not reach was rejected, as a text or after its name was resolved. */
  refused(stage: 'url' | 'connect'): void;
  opened(): void;
  /** An attempt was not made because this process has no socket left. @param code such as `EMFILE`. */
  noSocketLeft(code: string): void;
}

/** Metrics of connections, and of addresses that were rejected. */
export function senderMetrics(meter: Meter, pool: Pool): SenderMetrics {
  const again = meter.createCounter('webhooks.requests_resent', {
    description: 'Requests that were sent again on a new connection because a kept one was closed',
  });
  const refused = meter.createCounter('webhooks.addresses_refused', {
    description: 'Attempts rejected because of their address, by stage',
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
    refused: (stage) => refused.add(1, { stage }),
    opened: () => opened.add(1),
    noSocketLeft: (code) => noSocketLeft.add(1, { code }),
  };
}
