import { Code, ConnectError, type Interceptor } from '@connectrpc/connect';
import { type Attributes, type Meter, SpanKind } from '@opentelemetry/api';
import {
  currentTraceparent,
  currentTracestate,
  inSpan,
  type Telemetry,
} from '../telemetry/telemetry.ts';

/** Upper bounds of the duration histograms, from a cached read to the longest deadline. Seconds. */
const BOUNDS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** Records one finished call: its duration by method and code, and its failure. */
export type RecordCall = (
  rpc: { service: string; method: string },
  code: string,
  seconds: number,
) => void;

/** Creates the instruments of one side: `rpc.<side>.call.duration.seconds` and `rpc.<side>.errors`. */
export function callRecorder(meter: Meter, side: 'client' | 'server'): RecordCall {
  const duration = meter.createHistogram(`rpc.${side}.call.duration.seconds`, {
    description: 'Duration of RPCs',
    advice: { explicitBucketBoundaries: BOUNDS_S },
  });
  const failures = meter.createCounter(`rpc.${side}.errors`, {
    description: 'RPCs that failed. Those that their caller cancelled did not',
  });
  return (rpc, code, seconds) => {
    const attributes: Attributes = {
      'rpc.service': rpc.service,
      'rpc.method': rpc.method,
      'rpc.response.status_code': code,
    };
    duration.record(seconds, attributes);
    if (code !== 'OK' && code !== Code[Code.Canceled]) failures.add(1, attributes);
  };
}

/** Client interceptor: records a span and a duration for each call. Sends the trace in the metadata. */
export function clientInstrumentation(telemetry: Telemetry | undefined): Interceptor {
  const record = telemetry && callRecorder(telemetry.meter, 'client');
  return (next) => (req) => {
    const send: typeof next = (request) => {
      const traceparent = currentTraceparent();
      if (traceparent) request.header.set('traceparent', traceparent);
      const tracestate = currentTracestate();
      if (tracestate) request.header.set('tracestate', tracestate);
      return next(request);
    };
    if (!telemetry || !record) return send(req);
    const rpc = { service: req.service.typeName, method: req.method.name };
    return inSpan(
      telemetry.tracer,
      {
        name: `${rpc.service}/${rpc.method}`,
        kind: SpanKind.CLIENT,
        attributes: attributesOf(rpc),
      },
      () => measured(rpc, record, () => send(req)),
    );
  };
}

/** Server interceptor: records a duration and a span for each call. The caller's span is the parent. */
export function serverInstrumentation(telemetry: Telemetry, record: RecordCall): Interceptor {
  return (next) => (req) => {
    const rpc = { service: req.service.typeName, method: req.method.name };
    return inSpan(
      telemetry.tracer,
      {
        name: `${rpc.service}/${rpc.method}`,
        kind: SpanKind.SERVER,
        traceparent: req.header.get('traceparent') ?? '',
        tracestate: req.header.get('tracestate') ?? '',
        attributes: attributesOf(rpc),
      },
      () => measured(rpc, record, () => next(req)),
    );
  };
}

function attributesOf(rpc: { service: string; method: string }): Attributes {
  return { 'rpc.system': 'grpc', 'rpc.service': rpc.service, 'rpc.method': rpc.method };
}

async function measured<T>(
  rpc: { service: string; method: string },
  record: RecordCall,
  call: () => Promise<T>,
): Promise<T> {
  const start = performance.now();
  const seconds = (): number => (performance.now() - start) / 1_000;
  try {
    const response = await call();
    record(rpc, 'OK', seconds());
    return response;
  } catch (error) {
    record(rpc, Code[ConnectError.from(error).code], seconds());
    throw error;
  }
}
