import { once } from 'node:events';
import { createServer } from 'node:http';
import type { Meter } from '@opentelemetry/api';
import type { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
import { standardOutput } from './log-output.ts';

/** Serves `/metrics` for Prometheus on a port of its own; 0 takes a free one. */
export async function serveMetrics(
  reader: PrometheusExporter,
  host: string,
  port: number,
): Promise<{ url: string; close(): Promise<void> }> {
  const server = createServer((request, response) => {
    if (request.url === '/metrics') return reader.getMetricsRequestHandler(request, response);
    response.writeHead(404).end();
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

/** Memory, CPU time and dropped log lines of the process, read when asked for. */
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
