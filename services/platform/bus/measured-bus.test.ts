import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { SpanKind, SpanStatusCode } from '@opentelemetry/api';
import {
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace';
import { testTelemetry } from '../../../test/kit/services/telemetry.ts';
import {
  currentTraceparent,
  currentTracestate,
  startTelemetry,
  type Telemetry,
  withTraceparent,
} from '../telemetry/telemetry.ts';
import type { BusRecord, EventBus } from './event-bus.ts';
import { createInProcessBus } from './in-process.ts';
import { measuredBus } from './measured-bus.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const CAUSE = `00-${TRACE}-b7ad6b7169203331-01`;
const UNSAMPLED = `00-${TRACE}-b7ad6b7169203331-00`;
const STATE = 'dd=s:1,x=y';

const recordOf = (key: string, traceparent: string): BusRecord => ({
  key,
  value: Buffer.from('1'),
  headers: { event_id: `event ${key}`, traceparent, tracestate: STATE },
});

describe('bus with telemetry', () => {
  let telemetry: Telemetry;
  let spans: InMemorySpanExporter;
  let bus: EventBus;
  let contexts: string[];
  let behave: () => Promise<void>;

  beforeEach(async () => {
    spans = new InMemorySpanExporter();
    const spanProcessors = [new SimpleSpanProcessor({ exporter: spans })];
    telemetry = await startTelemetry({ service: 'test', metricsPort: 0, spanProcessors });
    [contexts, behave] = [[], async () => {}];
    bus = await subscribed(telemetry);
  });
  afterEach(async () => {
    await bus.close();
    await telemetry.stop();
  });

  async function subscribed(of: Telemetry): Promise<EventBus> {
    const made = measuredBus(createInProcessBus({ backoff: () => 1 }), of);
    await made.subscribe({
      group: 'g',
      topics: ['t', 'u'],
      async handle() {
        contexts.push(currentTraceparent(), currentTracestate());
        await behave();
      },
    });
    return made;
  }

  const finished = (): ReadableSpan[] =>
    spans.getFinishedSpans().toSorted((a, b) => b.name.localeCompare(a.name));

  test('one trace covers the cause of a record, its send, and its processing', async () => {
    await bus.publish('t', [recordOf('k', CAUSE)]);
    const [sent, processed] = finished();
    const shared = {
      'messaging.system': 'kafka',
      'messaging.destination.name': 't',
      'messaging.kafka.message.key': 'k',
      'messaging.message.id': 'event k',
    };
    expect(sent).toMatchObject({
      name: 'send t',
      kind: SpanKind.PRODUCER,
      attributes: {
        ...shared,
        'messaging.operation.name': 'send',
        'messaging.operation.type': 'send',
      },
    });
    expect(processed).toMatchObject({
      name: 'process t',
      kind: SpanKind.CONSUMER,
      attributes: {
        ...shared,
        'messaging.operation.name': 'process',
        'messaging.operation.type': 'process',
        'messaging.consumer.group.name': 'g',
      },
    });
    expect(sent?.parentSpanContext?.spanId).toBe('b7ad6b7169203331');
    expect(processed?.parentSpanContext?.spanId).toBe(sent?.spanContext().spanId);
    expect(contexts).toEqual([`00-${TRACE}-${processed?.spanContext().spanId}-01`, STATE]);
    // The handler names the cause, which is in the event, too. Its work belongs to the span of the processing.
    behave = () =>
      withTraceparent(CAUSE, async () => void contexts.push(currentTraceparent()), STATE);
    await bus.publish('t', [recordOf('k', CAUSE)]);
    const [inHandler, , inWork] = contexts.slice(2);
    expect(inWork).toBe(inHandler);
  });

  test('several records have one span, with links to their causes, which they keep', async () => {
    await bus.publish('t', [recordOf('k', CAUSE), recordOf('k', UNSAMPLED)]);
    const [sent, processed] = finished();
    expect(sent).toMatchObject({ name: 'send t', kind: SpanKind.CLIENT });
    for (const span of [sent, processed]) {
      expect(span?.attributes['messaging.batch.message_count']).toBe(2);
      expect(span?.links.map(({ context }) => context.spanId)).toEqual(['b7ad6b7169203331']);
      expect(span?.spanContext().traceId).not.toBe(TRACE);
    }
  });

  test('without sampling, and without an exporter, records cost no span', async () => {
    const [started, off] = [telemetry.tracer.startSpan, await testTelemetry()];
    let spansBegun = 0;
    for (const { tracer } of [telemetry, off])
      tracer.startSpan = (...o) => {
        spansBegun += 1;
        return started.apply(tracer, o);
      };
    await bus.publish('t', [recordOf('k', UNSAMPLED)]);
    await bus.publish('t', [{ ...recordOf('k', ''), headers: {} }]);
    const other = await subscribed(off);
    await other.publish('t', [recordOf('k', CAUSE)]);
    await other.close();
    await off.stop();
    expect(spansBegun).toBe(0);
  });

  test('metrics count records, and have the duration and the failure of an operation', async () => {
    let failures = 0;
    behave = async () => {
      failures += 1;
      if (failures === 1) throw new TypeError('a fault of the listener');
    };
    await bus.publish('t', [recordOf('k', CAUSE)]);
    await bus.close();
    await bus.publish('u', [recordOf('k', CAUSE)]).catch(() => {});
    const metrics = await (await fetch(telemetry.metricsUrl)).text();
    const labels = (operation: string, topic: string) =>
      `messaging_system="kafka",messaging_operation_name="${operation}",messaging_operation_type="${operation}",messaging_destination_name="${topic}"`;
    const processing = `${labels('process', 't')},messaging_consumer_group_name="g"`;
    for (const line of [
      `messaging_client_sent_messages_total{${labels('send', 't')}} 1`,
      `messaging_client_sent_messages_total{${labels('send', 'u')},error_type="Error"} 1`,
      `messaging_client_operation_duration_seconds_count{${labels('send', 't')}} 1`,
      `messaging_client_consumed_messages_total{${processing}} 2`,
      `messaging_process_duration_seconds_count{${processing}} 1`,
      `messaging_process_duration_seconds_count{${processing},error_type="TypeError"} 1`,
    ])
      expect(metrics).toContain(`\n${line}\n`);
    const failed = finished().filter(({ status }) => status.code === SpanStatusCode.ERROR);
    expect(failed.map(({ name }) => name)).toEqual(['send u', 'process t']);
  });
});
