import { once } from 'node:events';
import { createServer } from 'node:http';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import {
  currentTraceparent,
  inSpan,
  startTelemetry,
  type Telemetry,
  withTraceparent,
} from './telemetry.ts';

let telemetry: Telemetry;
beforeEach(async () => {
  telemetry = await startTelemetry({ service: 'test', metricsPort: 0 });
});
afterEach(() => telemetry.stop());

describe('metrics', () => {
  test('Prometheus reads them at a separate port', async () => {
    telemetry.meter.createCounter('things.done').add(3, { kind: 'a' });
    const response = await fetch(telemetry.metricsUrl);
    expect(response.status).toBe(200);
    expect(await response.text()).toMatch(/^things_done_total\{kind="a"\} 3/m);
  });

  test('two parts of one process count separately', async () => {
    const other = await startTelemetry({ service: 'other', metricsPort: 0 });
    telemetry.meter.createCounter('mine').add(1);
    expect(await (await fetch(other.metricsUrl)).text()).not.toContain('mine_total');
    await other.stop();
  });

  test('every other path is 404', async () => {
    expect((await fetch(telemetry.metricsUrl.replace('/metrics', '/'))).status).toBe(404);
  });

  test('a port in use is an error of the start', async () => {
    const metricsPort = Number(new URL(telemetry.metricsUrl).port);
    await expect(startTelemetry({ service: 'late', metricsPort })).rejects.toThrow('EADDRINUSE');
  });
});

describe('traces', () => {
  test('outside a span there is no trace context', () => {
    expect(currentTraceparent()).toBe('');
  });

  test('a span within a span, and one continued from outside, belong to one trace', async () => {
    const traceId = (traceparent: string) => traceparent.split('-')[1];
    const outer = await inSpan(telemetry.tracer, { name: 'outer' }, async () => {
      const here = currentTraceparent();
      const inner = await inSpan(telemetry.tracer, { name: 'inner' }, async () =>
        currentTraceparent(),
      );
      expect(traceId(inner)).toBe(traceId(here));
      expect(inner).not.toBe(here);
      return here;
    });
    expect(outer).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
    expect(await withTraceparent(outer, async () => currentTraceparent())).toBe(outer);
    const o = { name: 'later', traceparent: outer };
    const later = await inSpan(telemetry.tracer, o, async () => currentTraceparent());
    expect(traceId(later)).toBe(traceId(outer));
  });

  test('a malformed trace context is treated as none', async () => {
    expect(await withTraceparent('nonsense', async () => currentTraceparent())).toBe('');
  });
});

test('with a collector, finished spans arrive at the latest after the stop', async () => {
  const received: string[] = [];
  const collector = createServer((request, response) => {
    received.push(`${request.method} ${request.url}`);
    request.resume().on('end', () => response.end('{}'));
  }).listen(0, '127.0.0.1');
  await once(collector, 'listening');
  const { port } = z.object({ port: z.number() }).parse(collector.address());
  const otlpEndpoint = `http://127.0.0.1:${port}/`;
  const traced = await startTelemetry({ service: 'traced', metricsPort: 0, otlpEndpoint });
  await inSpan(traced.tracer, { name: 'work' }, async () => {});
  await traced.stop();
  expect(received).toEqual(['POST /v1/traces']);
  collector.closeAllConnections();
  collector.close();
});

test('an unavailable collector does not delay a stop', async () => {
  const otlpEndpoint = 'http://127.0.0.1:1';
  const traced = await startTelemetry({ service: 'traced', metricsPort: 0, otlpEndpoint });
  await inSpan(traced.tracer, { name: 'work' }, async () => {});
  await traced.stop();
});
