import type { Meter } from '@opentelemetry/api';
import type { ConnectionCounts } from './connections.ts';

/** Metrics for the connections of all listeners of the process. */
export function connectionMetrics(meter: Meter): ConnectionCounts {
  const open = meter.createUpDownCounter('http.server.connections', {
    description: 'Open connections',
  });
  const ended = meter.createCounter('http.server.connections.ended', {
    description: 'Connections that the server ended, by reason',
  });
  return {
    opened: () => open.add(1),
    closed: () => open.add(-1),
    ended: (reason) => ended.add(1, { reason }),
  };
}
