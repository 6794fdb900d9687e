import { once } from 'node:events';
import { createServer } from 'node:http';
import type { Meter } from '@opentelemetry/api';
import type { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
import { standardOutput } from './log-output.ts';

export interface MetricsEndpointOptions {
  readonly reader: PrometheusExporter;
  readonly host: string;
  /** TCP port. With 0 the kernel chooses a free one. */
  readonly port: number;
  /** The result of `/readyz`. Without this function, the path does not exist. */
  readonly isReady?: () => Promise<boolean>;
}

/**
 * Serves `/metrics` for Prometheus on a port of its own. It also serves `/readyz` for the kubelet there, because the
 * kubelet's gRPC probes do not support TLS.
 */
export async function serveMetrics(
  o: MetricsEndpointOptions,
): Promise<{ url: string; close(): Promise<void> }> {
  const { reader, host, port, isReady } = o;
  const server = createServer(async (request, response) => {
    if (request.url === '/metrics') return reader.getMetricsRequestHandler(request, response);
    if (request.url !== '/readyz' || !isReady) return response.writeHead(404).end();
    const ready = await isReady().catch(() => false);
    return response.writeHead(ready ? 200 : 503).end();
  });
  server.listen(port, host);
  await once(server, 'listening');
  const address = server.address();
  const bound = typeof address === 'object' && address ? address.port : port;
  return {
    url: `http://${host === '0.0.0.0' ? '127.0.0.1' : host}:${bound}/metrics`,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** Adds metrics of the process: memory, CPU time and dropped log lines, measured at each scrape. */
export function measureProcess(meter: Meter): void {
  meter
    .createObservableGauge('process.resident.memory.bytes', { description: 'Resident memory' })
    .addCallback((result) => result.observe(process.memoryUsage.rss()));
  meter
    .createObservableCounter('process.cpu.seconds', { description: 'CPU time used' })
    .addCallback((result) => {
      const { user, system } = process.cpuUsage();
      result.observe((user + system) / 1e6);
    });
  meter
    .createObservableCounter('log.lines.dropped', {
      description: 'Log lines that could not be written to standard output',
    })
    .addCallback((result) => result.observe(standardOutput().dropped()));
}
