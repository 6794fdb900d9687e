import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import {
  Client as BareClient,
  credentials,
  Metadata,
  type ServiceError,
  status,
} from '@grpc/grpc-js';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import {
  HealthCheckRequestSchema,
  HealthCheckResponseSchema,
  HealthCheckResponse_ServingStatus as Serving,
} from '../../../proto/gen/grpc/health/v1/health_pb.ts';
import {
  CartsService,
  CreateCartRequestSchema,
  type GetCartRequestSchema,
} from '../../../proto/gen/rms/carts/v1/carts_pb.ts';
import { Actor_Kind } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import {
  actor,
  cart,
  failure,
  identity,
  type RpcBench,
  startRpcBench,
} from '../../../test/kit/services/rpc-bench.ts';
import { fieldOf, reasonOf } from '../errors.ts';
import { kubernetesIdentity } from '../identity.ts';
import type { RunningServer } from './server.ts';

let bench: RpcBench;
beforeEach(async () => {
  bench = await startRpcBench();
});
afterEach(() => bench.close());

describe('identity', () => {
  test('another token is UNAUTHENTICATED, and the handler is not called', async () => {
    let reached = false;
    const server = await bench.serve({
      getCart: () => {
        reached = true;
        return {};
      },
    });
    const error = await failure(bench.clientOf(server, { token: 'u'.repeat(32) }).getCart(cart));
    expect([error.code, reached]).toEqual([Code.Unauthenticated, false]);
    expect(await (await fetch(bench.telemetry.metricsUrl)).text()).toMatch(
      /rpc_server_errors_total\{.*rpc_method="GetCart".*"Unauthenticated".*\} 1/,
    );
  });

  test('a server that cannot read the keys of tokens is UNAVAILABLE, and logs why', async () => {
    const file = '/no/such/file';
    const settings = { tokenFile: file, jwksFile: file, issuer: 'cluster', subjects: ['*'] };
    const server = await bench.serve({}, { identity: kubernetesIdentity(settings) });
    const error = await failure(bench.clientOf(server).getCart(cart));
    const text = 'service tokens cannot be verified';
    expect([error.code, error.rawMessage]).toEqual([Code.Unavailable, text]);
    expect(bench.logged.filter((line) => line.includes(text))).toEqual([
      expect.stringContaining(`ENOENT: no such file or directory, open '${file}'`),
    ]);
  });

  const improper: [string, MessageInitShape<typeof GetCartRequestSchema>][] = [
    ['actor', { shopId: 1n, token: 'x' }],
    ['actor', { ...cart, actor: { kind: Actor_Kind.UNSPECIFIED, id: 'x' } }],
    ['actor', { ...cart, actor: { kind: Actor_Kind.SYSTEM, id: '' } }],
    ['actor', { ...cart, actor: { kind: Actor_Kind.SYSTEM, id: 'x'.repeat(201) } }],
    ['actor', { ...cart, actor: { kind: Actor_Kind.SYSTEM, id: 'x\0' } }],
    ['actor', { ...cart, actor: { kind: Actor_Kind.SYSTEM, id: 'x', name: 'y'.repeat(201) } }],
    ['actor', { ...cart, actor: { kind: Actor_Kind.SYSTEM, id: 'x', name: 'y\0' } }],
    ['shop_id', { ...cart, shopId: 0n }],
    ['shop_id', { ...cart, shopId: -1n }],
    ['shop_id', { ...cart, shopId: 2n ** 53n }],
  ];

  test.each(improper)('without a valid %s the call is INVALID_ARGUMENT', async (field, request) => {
    const client = bench.clientOf(await bench.serve({ getCart: () => ({}) }));
    const error = await failure(client.getCart(request));
    expect([error.code, fieldOf(error)]).toEqual([Code.InvalidArgument, field]);
    expect(reasonOf(error)).toBe(ErrorReason.INVALID_FIELD);
  });
});

describe('a bare gRPC client', () => {
  function bareCall(
    server: RunningServer,
    path: string,
    o: { message?: Uint8Array; token?: string },
  ) {
    const client = new BareClient(`127.0.0.1:${server.port}`, credentials.createInsecure());
    bench.cleanups.push(() => client.close());
    const metadata = new Metadata();
    if (o.token) metadata.set('authorization', o.token);
    return new Promise<Buffer>((resolve, reject) => {
      client.makeUnaryRequest(
        path,
        (message: Uint8Array) => Buffer.from(message),
        (bytes) => bytes,
        o.message ?? new Uint8Array(),
        metadata,
        { deadline: Date.now() + 5_000 },
        (error: ServiceError | null, bytes) =>
          error ? reject(error) : resolve(bytes ?? Buffer.alloc(0)),
      );
    });
  }
  const health = '/grpc.health.v1.Health/Check';

  test('needs the token', async () => {
    const server = await bench.serve({ createCart: () => ({}) });
    const message = toBinary(
      CreateCartRequestSchema,
      create(CreateCartRequestSchema, { shopId: 1n, actor }),
    );
    const path = '/rms.carts.v1.CartsService/CreateCart';
    for (const scheme of ['Bearer ', 'bearer ', 'Bearer  ']) {
      await bareCall(server, path, { message, token: scheme + (await identity.token()) });
    }
    for (const token of ['', 'Bearer', 'Bearer x', `Basic ${await identity.token()}`]) {
      await expect(bareCall(server, path, { message, token })).rejects.toMatchObject({
        code: status.UNAUTHENTICATED,
        details: expect.stringContaining('Read the token for each call, because it expires'),
      });
    }
  });

  test('gets the text of an error as it was written', async () => {
    const text = 'lines[0]: at most 100 %, or %2C; a/b?c=d&e+f #1 @x $2 "é" 🎁\nend';
    const server = await bench.serve({
      createCart: () => Promise.reject(new ConnectError(text, Code.Aborted)),
    });
    const message = toBinary(
      CreateCartRequestSchema,
      create(CreateCartRequestSchema, { shopId: 1n, actor }),
    );
    const token = `Bearer ${await identity.token()}`;
    const call = bareCall(server, '/rms.carts.v1.CartsService/CreateCart', { message, token });
    await expect(call).rejects.toMatchObject({ code: status.ABORTED, details: text });
    const error = await failure(bench.clientOf(server).createCart({ shopId: 1n, actor }));
    expect([error.code, error.rawMessage]).toEqual([Code.Aborted, text]);
  });

  test('gets health without a token, by service and for the whole', async () => {
    const server = await bench.serve({});
    for (const service of ['', CartsService.typeName]) {
      const message = toBinary(
        HealthCheckRequestSchema,
        create(HealthCheckRequestSchema, { service }),
      );
      const answer = await bareCall(server, health, { message });
      expect(fromBinary(HealthCheckResponseSchema, answer).status).toBe(Serving.SERVING);
    }
    const unknown = toBinary(
      HealthCheckRequestSchema,
      create(HealthCheckRequestSchema, { service: 'no.such.Service' }),
    );
    await expect(bareCall(server, health, { message: unknown })).rejects.toMatchObject({
      code: status.NOT_FOUND,
    });
  });

  test('sees that the server is not serving, and its calls are rejected', async () => {
    const server = await bench.serve({}, { isOpen: () => false, isReady: async () => false });
    const answer = await bareCall(server, health, {});
    expect(fromBinary(HealthCheckResponseSchema, answer).status).toBe(Serving.NOT_SERVING);
    expect((await failure(bench.clientOf(server).createCart({ shopId: 1n, actor }))).code).toBe(
      Code.Unavailable,
    );
  });
});
