import { Code, ConnectError, type Interceptor } from '@connectrpc/connect';
import { status } from '@grpc/grpc-js';
import { type Attributes, type Meter, type Span, SpanKind } from '@opentelemetry/api';
import {
  currentTraceparent,
  currentTracestate,
  inSpan,
  type Telemetry,
} from '../telemetry/telemetry.ts';

/** Upper bounds of the duration histograms, from a cached read to the longest deadline. Seconds. */
const BOUNDS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** The names of an RPC. */
export interface Rpc {
  readonly service: string;
  readonly method: string;
}

/** Records one finished call: its duration by method and code, and its failure. Returns the attributes of its end. */
export type RecordCall = (rpc: Rpc, code: Code | undefined, seconds: number) => Attributes;

/** Returns the attributes of an RPC, by the semantic conventions of OpenTelemetry. Their method contains the service. */
export function rpcAttributes({ service, method }: Rpc): Attributes {
  return { 'rpc.system.name': 'grpc', 'rpc.method': `${service}/${method}` };
}

/** The codes with which a server itself failed. Other codes tell the caller about its call. */
const SERVER_ERRORS: ReadonlySet<Code> = new Set([
  Code.Unknown,
  Code.DeadlineExceeded,
  Code.Unimplemented,
  Code.Internal,
  Code.Unavailable,
  Code.DataLoss,
]);

/**
 * Creates the instruments of one side: `rpc.<side>.call.duration`, in seconds, and `rpc.<side>.errors`.
 *
 * @param peer attributes of all calls.
 */
export function callRecorder(
  meter: Meter,
  side: 'client' | 'server',
  peer: Attributes = {},
): RecordCall {
  const duration = meter.createHistogram(`rpc.${side}.call.duration.seconds`, {
    description: 'Duration of RPCs',
    advice: { explicitBucketBoundaries: BOUNDS_S },
  });
  const failures = meter.createCounter(`rpc.${side}.errors`, {
    description: 'RPCs that failed. Those that their caller cancelled did not',
  });
  return (rpc, code, seconds) => {
    // The names of gRPC and Connect differ, the numbers do not.
    const name = code === undefined ? 'OK' : status[code];
    const isError = code !== undefined && (side === 'client' || SERVER_ERRORS.has(code));
    const end = { 'rpc.status_code': name, ...(isError && { 'error.type': name }) };
    const attributes = { ...peer, ...rpcAttributes(rpc), ...end };
    duration.record(seconds, attributes);
    if (code !== undefined && code !== Code.Canceled) failures.add(1, attributes);
    return end;
  };
}

/** A gRPC name with one host and a port, such as `dns:///returns:8080`. */
const TARGET = /^(?:dns:\/\/[^/]*\/)?([^/:]+):(\d+)$/;

function addressOf(target: string): Attributes {
  const [, host, port] = TARGET.exec(target) ?? [];
  if (host === undefined) return { 'server.address': target };
  return { 'server.address': host, 'server.port': Number(port) };
}

/** Client interceptor: records a span and a duration for each call. Sends the trace in the metadata. */
export function clientInstrumentation(
  telemetry: Telemetry | undefined,
  target: string,
): Interceptor {
  const server = addressOf(target);
  const record = telemetry && callRecorder(telemetry.meter, 'client', server);
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
        attributes: { ...server, ...rpcAttributes(rpc) },
      },
      (span) => measured(span, rpc, record, () => send(req)),
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
        attributes: rpcAttributes(rpc),
        isError: (error) => SERVER_ERRORS.has(ConnectError.from(error).code),
      },
      (span) => measured(span, rpc, record, () => next(req)),
    );
  };
}

async function measured<T>(
  span: Span,
  rpc: Rpc,
  record: RecordCall,
  call: () => Promise<T>,
): Promise<T> {
  const start = performance.now();
  const end = (code?: Code) =>
    span.setAttributes(record(rpc, code, (performance.now() - start) / 1_000));
  try {
    const response = await call();
    end();
    return response;
  } catch (error) {
    end(ConnectError.from(error).code);
    throw error;
  }
}
