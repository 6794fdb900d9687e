import { once } from 'node:events';
import { createServer } from 'node:http';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { createContextKey, ROOT_CONTEXT, trace } from '@opentelemetry/api';
import { z } from 'zod';
import { RELEASE } from '../postgres/release.ts';
import {
  AsyncContextManager,
  contextFrom,
  currentTraceparent,
  inSpan,
  startTelemetry,
  type Telemetry,
  traceparentOf,
  withTraceparent,
} from './telemetry.ts';

describe('telemetry', () => {
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

    test('say which process they are of, with what the environment says', async () => {
      process.env.OTEL_RESOURCE_ATTRIBUTES = 'k8s.pod.name=gateway-1,team=a%20b';
      const named = await startTelemetry({ service: 'named', metricsPort: 0 });
      delete process.env.OTEL_RESOURCE_ATTRIBUTES;
      const [info = ''] =
        /^target_info\{.*\}/m.exec(await (await fetch(named.metricsUrl)).text()) ?? [];
      await named.stop();
      for (const label of [
        'service_name="named"',
        'service_namespace="rms"',
        `service_version="${RELEASE}"`,
        'k8s_pod_name="gateway-1"',
        'team="a b"',
      ])
        expect(info).toContain(label);
      expect(info).toMatch(/service_instance_id="[^"]{8,}"/);
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
});

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const SPAN = 'b7ad6b7169203331';

describe('traceparent', () => {
  test('is parsed and written', () => {
    const read = contextFrom(`00-${TRACE}-${SPAN}-01`);
    expect(trace.getSpanContext(read)).toEqual({
      traceId: TRACE,
      spanId: SPAN,
      traceFlags: 1,
      isRemote: true,
    });
    expect(traceparentOf(read)).toBe(`00-${TRACE}-${SPAN}-01`);
  });

  test('of a later version may have more fields', () => {
    expect(traceparentOf(contextFrom(`01-${TRACE}-${SPAN}-00-more`))).toBe(
      `00-${TRACE}-${SPAN}-00`,
    );
  });

  test.each([
    '',
    'nonsense',
    `ff-${TRACE}-${SPAN}-01`,
    `00-${'0'.repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `00-${TRACE.toUpperCase()}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}`,
  ])('%j names no span', (text) => {
    expect(contextFrom(text)).toBe(ROOT_CONTEXT);
  });

  test('is empty without a span', () => {
    expect(traceparentOf(ROOT_CONTEXT)).toBe('');
  });
});

describe('the active context', () => {
  const key = createContextKey('test');
  const manager = new AsyncContextManager();
  const one = ROOT_CONTEXT.setValue(key, 'one');
  const two = ROOT_CONTEXT.setValue(key, 'two');

  test('stays with its own work across awaits', async () => {
    const read = async () => {
      await new Promise((done) => setImmediate(done));
      return manager.active().getValue(key);
    };
    expect(await Promise.all([manager.with(one, read), manager.with(two, read), read()])).toEqual([
      'one',
      'two',
      undefined,
    ]);
  });

  test('is bound to a function', () => {
    const bound = manager.bind(one, (word: string) => [word, manager.active().getValue(key)]);
    expect(manager.with(two, () => bound('bound'))).toEqual(['bound', 'one']);
    expect(manager.bind(one, 5)).toBe(5);
  });
});
