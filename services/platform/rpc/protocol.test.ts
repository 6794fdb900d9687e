import { once } from 'node:events';
import http2 from 'node:http2';
import { promisify } from 'node:util';
import { gzip as gzipWith } from 'node:zlib';
import { create, toBinary } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { Client, credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { GetCartRequestSchema } from '../../../proto/gen/rms/carts/v1/carts_pb.ts';
import { cart, type RpcBench, startRpcBench } from '../../../test/kit/services/rpc-bench.ts';
import { SERVICE_TOKEN } from '../../../test/kit/settings.ts';
import { MAX_MESSAGE_BYTES } from './limits.ts';

const gzip = promisify(gzipWith);
const PATH = '/rms.carts.v1.CartsService/GetCart';
const REQUEST = Buffer.from(toBinary(GetCartRequestSchema, create(GetCartRequestSchema, cart)));
const authorization = `Bearer ${SERVICE_TOKEN}`;
const HOUR_MS = 3_600_000;

let bench: RpcBench;
let port: number;
let calls = 0;
let errors = 0;
/** Of the last response. */
let headers: http2.IncomingHttpHeaders & http2.IncomingHttpStatusHeader;
let message: unknown;
let handle = async (_signal: AbortSignal): Promise<void> => {};
beforeAll(async () => {
  bench = await startRpcBench();
  const server = await bench.serve({
    async getCart(_request, { signal }) {
      calls += 1;
      await handle(signal);
      return {};
    },
  });
  port = server.port;
});
afterEach(() => {
  handle = async () => {};
  expect(bench.logged).toHaveLength(errors);
});
afterAll(() => bench.close());

/** Makes the handler wait until its caller is gone or its deadline passed, like a statement does. */
function handleUntilAborted(): void {
  handle = async (signal) => {
    if (!signal.aborted) await once(signal, 'abort');
    throw new ConnectError('the caller disconnected', Code.Canceled);
  };
}

function envelope(data: Buffer, flags = 0): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt8(flags);
  head.writeUInt32BE(data.length, 1);
  return Buffer.concat([head, data]);
}

/** Sends bytes without a gRPC library. Returns the status of HTTP, and that of gRPC if there is one. */
async function send(body: Buffer, more: http2.OutgoingHttpHeaders = {}) {
  const session = http2.connect(`http://127.0.0.1:${port}`);
  const call = session.request({
    ':method': 'POST',
    ':path': PATH,
    'content-type': 'application/grpc',
    te: 'trailers',
    authorization,
    ...more,
  });
  let grpc: unknown;
  call.on('trailers', (trailers) => {
    grpc = trailers['grpc-status'];
    message = trailers['grpc-message'];
  });
  const response = once(call, 'response');
  const closed = once(call.resume().end(body), 'close');
  [headers] = await response;
  await closed;
  session.destroy();
  grpc ??= headers['grpc-status'];
  return grpc === undefined ? headers[':status'] : status[Number(grpc)];
}

/** Calls with the client of grpc-js. Returns the status. */
async function callWith(o: { message?: Buffer; path?: string; deadline?: number; more?: object }) {
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure());
  const metadata = new Metadata();
  metadata.set('authorization', authorization);
  const error = await new Promise<ServiceError | null>((resolve) => {
    client.makeUnaryRequest(
      o.path ?? PATH,
      (message: Buffer) => message,
      (bytes: Buffer) => bytes,
      o.message ?? REQUEST,
      metadata,
      { ...(o.deadline !== undefined && { deadline: Date.now() + o.deadline }), ...o.more },
      resolve,
    );
  });
  client.close();
  return status[error?.code ?? status.OK];
}

describe('a request that the service cannot read is the fault of the caller', () => {
  const cut = async () => (await gzip(REQUEST)).subarray(0, 12);

  test.each<[string, string, () => Buffer | Promise<Buffer>, http2.OutgoingHttpHeaders]>([
    ['JSON instead of protobuf', 'INVALID_ARGUMENT', () => envelope(Buffer.from('{}')), {}],
    ['protobuf that ends early', 'INVALID_ARGUMENT', () => envelope(Buffer.from([26, 80])), {}],
    ['an incomplete message', 'INVALID_ARGUMENT', () => envelope(REQUEST).subarray(0, 8), {}],
    ['no message', 'UNIMPLEMENTED', () => Buffer.alloc(0), {}],
    [
      'two messages',
      'UNIMPLEMENTED',
      () => Buffer.concat([envelope(REQUEST), envelope(REQUEST)]),
      {},
    ],
    ['gzip', 'OK', async () => envelope(await gzip(REQUEST), 1), { 'grpc-encoding': 'gzip' }],
    [
      'gzip that is none',
      'INVALID_ARGUMENT',
      () => envelope(REQUEST, 1),
      { 'grpc-encoding': 'gzip' },
    ],
    [
      'gzip that ends early',
      'INVALID_ARGUMENT',
      async () => envelope(await cut(), 1),
      { 'grpc-encoding': 'gzip' },
    ],
    ['gzip without a name', 'INVALID_ARGUMENT', async () => envelope(await gzip(REQUEST), 1), {}],
    [
      'an unknown compression',
      'UNIMPLEMENTED',
      () => envelope(REQUEST, 1),
      { 'grpc-encoding': 'x' },
    ],
    [
      'broken JSON',
      'INVALID_ARGUMENT',
      () => envelope(REQUEST),
      { 'content-type': 'application/grpc+json' },
    ],
  ])('%s: %s', async (_what, code, body, headers) => {
    expect(await send(await body(), headers)).toBe(code);
  });

  test.each([
    ['{"shopId":"1","actor":{"kind":"KIND_SYSTEM","id":"x"},"token":"x"}', 'OK', ''],
    [
      '{"shopId":"1","actor":{"kind":"KIND_ROBOT","id":"x"},"token":"x"}',
      'INVALID_ARGUMENT',
      'enum rms.common.v1.Actor.Kind from JSON: "KIND_ROBOT"',
    ],
    ['{"shop":"1"}', 'INVALID_ARGUMENT', 'GetCartRequest from JSON: key "shop" is unknown'],
  ])('JSON %s: %s', async (json, code, text) => {
    const body = envelope(Buffer.from(json));
    expect(await send(body, { 'content-type': 'application/grpc+json' })).toBe(code);
    expect(message ?? '').toContain(text);
  });

  test('a message above the limit: RESOURCE_EXHAUSTED', async () => {
    const message = Buffer.alloc(MAX_MESSAGE_BYTES + 1);
    expect(await callWith({ message })).toBe('RESOURCE_EXHAUSTED');
  });

  test.each(['text/plain', 'application/json', 'application/proto', 'application/grpc-web+proto'])(
    'the type %s: 415 of HTTP, as gRPC says',
    async (type) => {
      expect(await send(envelope(REQUEST), { 'content-type': type })).toBe(415);
      expect(headers['accept-post']).toContain('application/grpc, ');
    },
  );

  test('another method: 405 of HTTP, and the allowed one', async () => {
    expect(await send(Buffer.alloc(0), { ':method': 'PUT' })).toBe(405);
    expect(headers.allow).toBe('POST');
  });

  test.each(['/rms.carts.v1.CartsService/No', '/rms.No/GetCart'])(
    'the unknown method %s: UNIMPLEMENTED',
    async (path) => {
      expect(await send(envelope(REQUEST), { ':path': path })).toBe('UNIMPLEMENTED');
      expect(await callWith({ path })).toBe('UNIMPLEMENTED');
    },
  );

  test('an error of the handler that is none of these: INTERNAL', async () => {
    handle = async () => {
      throw new Error('ours');
    };
    expect(await send(envelope(REQUEST))).toBe('INTERNAL');
    errors += 1;
  });
});

describe('a deadline', () => {
  test.each(['596H', '597H', '99999999H', '2147484S', '35792M', '99999999S'])(
    'of %s does not end the call',
    async (timeout) => {
      const nth = calls + 1;
      handle = async (signal) => {
        if (calls > nth) return;
        // Other calls end before this one. A timer that Node ends at once ends before them.
        for (let n = 0; n < 5; n += 1) await send(envelope(REQUEST));
        signal.throwIfAborted();
      };
      expect(await send(envelope(REQUEST), { 'grpc-timeout': timeout })).toBe('OK');
    },
  );

  test('far in the future, from a client of grpc-js, does not end the call', async () => {
    expect(await callWith({ deadline: 100_000 * HOUR_MS })).toBe('OK');
  });

  test.each(['0n', '1n', '999u', '20m'])('of %s ends with DEADLINE_EXCEEDED', async (timeout) => {
    handleUntilAborted();
    expect(await send(envelope(REQUEST), { 'grpc-timeout': timeout })).toBe('DEADLINE_EXCEEDED');
  });

  test.each(['1x', '-1S', '100000000H', '1.5S', ''])('of "%s" is invalid', async (timeout) => {
    expect(await send(envelope(REQUEST), { 'grpc-timeout': timeout })).toBe('INVALID_ARGUMENT');
  });

  test('that passes in a client of grpc-js is DEADLINE_EXCEEDED', async () => {
    handleUntilAborted();
    expect(await callWith({ deadline: 20 })).toBe('DEADLINE_EXCEEDED');
  });
});
