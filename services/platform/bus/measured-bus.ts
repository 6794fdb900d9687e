import {
  type Attributes,
  isSpanContextValid,
  type Link,
  type Span,
  SpanKind,
  TraceFlags,
  trace,
} from '@opentelemetry/api';
import { contextFrom, currentTraceparent, inSpan, type Telemetry } from '../telemetry/telemetry.ts';
import type { BusRecord, EventBus, ReceivedRecord, Subscription } from './event-bus.ts';

/** Upper bounds of the duration histograms, by the semantic conventions. Seconds. */
const BOUNDS_S = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

/** A span of one operation on records, which begins if the trace of a record is exported. */
interface Operation {
  readonly name: string;
  readonly kind: SpanKind;
  readonly records: readonly BusRecord[];
  readonly attributes: Attributes;
}

/**
 * Returns a bus over Kafka with metrics and spans that have the names of the semantic conventions of OpenTelemetry. A
 * record whose trace is not sampled has no span.
 *
 * The span of a single record continues the trace of the record, and the next process continues from there. The span of
 * several records has a trace of its own, with links to theirs.
 */
export function measuredBus(bus: EventBus, telemetry: Telemetry): EventBus {
  const { meter } = telemetry;
  const advice = { explicitBucketBoundaries: BOUNDS_S };
  const sent = meter.createCounter('messaging.client.sent.messages', {
    description: 'Records that were sent to Kafka, or failed to be',
  });
  const consumed = meter.createCounter('messaging.client.consumed.messages', {
    description: 'Records that were passed to a listener, again after each failure',
  });
  const sending = meter.createHistogram('messaging.client.operation.duration.seconds', {
    description: 'Time until Kafka has stored records',
    advice,
  });
  const processing = meter.createHistogram('messaging.process.duration.seconds', {
    description: 'Time in which a listener handles records',
    advice,
  });

  async function send(topic: string, records: readonly BusRecord[]): Promise<void> {
    const attributes = attributesOf('send', topic);
    const kind = records.length === 1 ? SpanKind.PRODUCER : SpanKind.CLIENT;
    await inSpanOf(telemetry, { name: `send ${topic}`, kind, records, attributes }, (span) =>
      measured(
        () => bus.publish(topic, span && records.length === 1 ? records.map(inTrace) : records),
        (seconds, error) => {
          span?.setAttributes(error);
          sending.record(seconds, { ...attributes, ...error });
          sent.add(records.length, { ...attributes, ...error });
        },
      ),
    );
  }

  async function handle(s: Subscription, records: readonly ReceivedRecord[]): Promise<void> {
    const byTopic = Map.groupBy(records, ({ topic }) => topic);
    const labelsOf = (topic?: string): Attributes => ({
      ...attributesOf('process', topic),
      'messaging.consumer.group.name': s.group,
    });
    for (const [topic, { length }] of byTopic) consumed.add(length, labelsOf(topic));
    const [topic] = byTopic.size === 1 ? byTopic.keys() : [];
    const attributes = labelsOf(topic);
    const name = topic === undefined ? 'process' : `process ${topic}`;
    await inSpanOf(telemetry, { name, kind: SpanKind.CONSUMER, records, attributes }, (span) =>
      measured(
        () => s.handle(records),
        (seconds, error) => {
          span?.setAttributes(error);
          processing.record(seconds, { ...attributes, ...error });
        },
      ),
    );
  }

  return {
    ...bus,
    publish: async (topic, records) => {
      if (records.length > 0) await send(topic, records);
    },
    subscribe: (s) => bus.subscribe({ ...s, handle: (records) => handle(s, records) }),
  };
}

function attributesOf(operation: 'send' | 'process', topic: string | undefined): Attributes {
  return {
    'messaging.system': 'kafka',
    'messaging.operation.name': operation,
    'messaging.operation.type': operation,
    ...(topic !== undefined && { 'messaging.destination.name': topic }),
  };
}

/** Runs `work` in a span if the trace of at least one record is sampled and exported. */
function inSpanOf<T>(
  { tracer, exportsTraces }: Telemetry,
  { records, attributes, ...o }: Operation,
  work: (span?: Span) => Promise<T>,
): Promise<T> {
  const links = exportsTraces ? records.flatMap(linkOf) : [];
  const [first] = records;
  if (links.length === 0 || !first) return work();
  if (records.length === 1) {
    const { traceparent = '', tracestate = '' } = first.headers;
    const ofRecord = { ...attributes, ...recordAttributes(first) };
    return inSpan(tracer, { ...o, traceparent, tracestate, attributes: ofRecord }, work);
  }
  const ofBatch = { ...attributes, 'messaging.batch.message_count': records.length };
  return inSpan(tracer, { ...o, traceparent: '', links, attributes: ofBatch }, work);
}

function linkOf({ headers }: BusRecord): Link[] {
  const { traceparent, tracestate } = headers;
  if (traceparent === undefined) return [];
  const context = trace.getSpanContext(contextFrom(traceparent, tracestate));
  const isSampled =
    context && isSpanContextValid(context) && context.traceFlags & TraceFlags.SAMPLED;
  return isSampled ? [{ context }] : [];
}

function recordAttributes(record: BusRecord | ReceivedRecord): Attributes {
  const { event_id: id } = record.headers;
  const [partition, offset] = 'position' in record ? record.position.split('/') : [];
  return {
    'messaging.kafka.message.key': record.key,
    ...(id !== undefined && { 'messaging.message.id': id }),
    ...(partition !== undefined && { 'messaging.destination.partition.id': partition }),
    ...(offset !== undefined && { 'messaging.kafka.offset': Number(offset) }),
  };
}

/** Returns the record as a part of the active span. */
function inTrace(record: BusRecord): BusRecord {
  return { ...record, headers: { ...record.headers, traceparent: currentTraceparent() } };
}

async function measured(
  work: () => Promise<void>,
  onEnd: (seconds: number, error: Attributes) => void,
): Promise<void> {
  const start = performance.now();
  const end = (error: Attributes) => onEnd((performance.now() - start) / 1_000, error);
  try {
    await work();
  } catch (error) {
    end({ 'error.type': errorType(error) });
    throw error;
  }
  end({});
}

/** The name of Kafka for an error of the broker, or else that of the class. */
function errorType(error: unknown): string {
  if (!(error instanceof Error)) return '_OTHER';
  const type: unknown = Reflect.get(error, 'type');
  return typeof type === 'string' ? type : error.name;
}
