import {
  create,
  type DescMethod,
  type DescService,
  fromBinary,
  type MessageInitShape,
  toBinary,
} from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import {
  Client as BareClient,
  credentials,
  Metadata,
  type ServiceError,
  status,
} from '@grpc/grpc-js';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { pino } from 'pino';
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
import { EventsService } from '../../../proto/gen/rms/events/v1/events_service_pb.ts';
import { ReturnsService } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import {
  actor,
  cart,
  failure,
  identity,
  type RpcBench,
  startRpcBench,
} from '../../../test/kit/services/rpc-bench.ts';
import { startServiceServer } from '../process/service.ts';
import { kubernetesIdentity, staticIdentity } from '../security/identity.ts';
import { PROCESS_NAMES, SERVICE_NAMES, SERVICES as SERVICES_TABLE } from '../services.ts';
import { startTelemetry, type Telemetry } from '../telemetry/telemetry.ts';
import { fieldOf, reasonOf } from '../values/errors.ts';
import { INTERNAL_CALLERS, mayCall, RPC_SERVICES } from './callers.ts';
import { createGrpcTransport } from './client.ts';
import type { RunningServer } from './server.ts';

describe('authorization', () => {
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
        /rpc_server_errors_total\{.*rpc_method="rms.carts.v1.CartsService\/GetCart",rpc_status_code="UNAUTHENTICATED"\} 1/,
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

    test.each(improper)(
      'without a valid %s the call is INVALID_ARGUMENT',
      async (field, request) => {
        const client = bench.clientOf(await bench.serve({ getCart: () => ({}) }));
        const error = await failure(client.getCart(request));
        expect([error.code, fieldOf(error)]).toEqual([Code.InvalidArgument, field]);
        expect(reasonOf(error)).toBe(ErrorReason.INVALID_FIELD);
      },
    );
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
});

describe('callers', () => {
  const { commerce: _, ...ours } = RPC_SERVICES;
  const OWN_SERVICES: readonly DescService[] = Object.values(ours);
  /** Each service that publishes also serves EventsService. */
  const SERVICES: readonly DescService[] = [...OWN_SERVICES, EventsService];
  const RPCS = SERVICES.flatMap((service) => service.methods);
  const CALLERS = [...PROCESS_NAMES, ...INTERNAL_CALLERS];
  const STRANGER = 'default';

  /** Descriptors refer to one another, so a failed comparison of them would print for minutes. */
  const namesOf = (methods: readonly DescMethod[]) => methods.map(String);

  let telemetry: Telemetry;
  let server: RunningServer;
  let transport: ReturnType<typeof createGrpcTransport>;
  const logged: string[] = [];
  const identity = staticIdentity('t'.repeat(32));

  beforeAll(async () => {
    telemetry = await startTelemetry({ service: 'test', metricsPort: 0 });
    server = await startServiceServer({
      port: 0,
      // There are no handlers, so an accepted call is UNIMPLEMENTED.
      routes: (router) => {
        for (const service of SERVICES) router.service(service, {});
      },
      identity,
      logger: pino({}, { write: (line: string) => void logged.push(line) }),
      telemetry,
      reflection: false,
      maxCallsInFlight: 100,
      isReady: async () => true,
      isOpen: () => true,
    });
    const target = `127.0.0.1:${server.port}`;
    transport = createGrpcTransport({ target, timeoutMs: 20_000, interceptors: [] });
  });
  afterAll(async () => {
    transport.close();
    await server.stop();
    await telemetry.stop();
  });

  async function call(
    caller: string | undefined,
    method: DescMethod,
    kind: Actor_Kind = Actor_Kind.SERVICE,
  ) {
    const as = caller === undefined ? identity : identity.as(caller);
    const headers = { authorization: `Bearer ${await as.token()}` };
    const request = { shopId: 1n, actor: { kind, id: 'x' } };
    const error = await transport
      .unary({ ...method, methodKind: 'unary' }, undefined, undefined, headers, request)
      .catch((caught: unknown) => caught);
    if (!(error instanceof ConnectError)) throw new Error('the call did not fail');
    return error;
  }

  describe('the table of callers', () => {
    test.each([...CALLERS, STRANGER])(
      '%s may call exactly what the table lists',
      async (caller) => {
        const answers = await Promise.all(RPCS.map((method) => call(caller, method)));
        const allowed = RPCS.filter((_, at) => answers[at]?.code === Code.Unimplemented);
        const refused = RPCS.filter((_, at) => answers[at]?.code === Code.PermissionDenied);
        const listed = RPCS.filter((method) => mayCall(caller, method.parent, method));
        expect(namesOf(allowed)).toEqual(namesOf(listed));
        expect(allowed.length + refused.length).toBe(RPCS.length);
      },
    );

    test('has the calls of the table of services between our own processes', () => {
      const edges = PROCESS_NAMES.flatMap((caller) =>
        SERVICES.filter((service) =>
          service.methods.some((one) => mayCall(caller, service, one)),
        ).map((service) => `${caller} -> ${service.name}`),
      );
      const calls = SERVICE_NAMES.flatMap((caller) => {
        const { calls, listensTo } = SERVICES_TABLE[caller];
        return [
          ...calls.map((name) => `${caller} -> ${RPC_SERVICES[name].name}`),
          ...(listensTo.length > 0 ? [`${caller} -> EventsService`] : []),
        ];
      });
      expect(edges).toEqual([
        ...OWN_SERVICES.map((service) => `gateway -> ${service.name}`),
        'gateway -> EventsService',
        ...calls,
      ]);
    });

    test('lists a caller for every RPC, and every listed account exists', () => {
      const unreachable = RPCS.filter(
        (rpc) => !CALLERS.some((one) => mayCall(one, rpc.parent, rpc)),
      );
      expect(namesOf(unreachable)).toEqual([]);
      expect(namesOf(RPCS.filter((rpc) => mayCall(STRANGER, rpc.parent, rpc)))).toEqual([]);
    });

    test('closes RPCs between services to other callers', () => {
      const { applyAssessments, applyGradings, getSnapshot, readEvents } = ReturnsService.method;
      const callersOf = (method: DescMethod) =>
        CALLERS.filter((caller) => mayCall(caller, ReturnsService, method));
      expect(callersOf(applyAssessments)).toEqual(['dispositions']);
      expect(callersOf(applyGradings)).toEqual(['dispositions']);
      expect(callersOf(getSnapshot)).toEqual(['webhooks']);
      expect(callersOf(readEvents)).toEqual(['webhooks']);
      for (const method of EventsService.methods) {
        const callers = CALLERS.filter((caller) => mayCall(caller, EventsService, method));
        expect(callers).toEqual(['gateway', 'returns', 'webhooks']);
      }
    });

    test('a rejection names caller and RPC, is logged and counted', async () => {
      const before = logged.length;
      const error = await call('webhooks', ReturnsService.method.submitReturn);
      expect(error.rawMessage).toBe(
        'webhooks may not call SubmitReturn of rms.returns.v1.ReturnsService',
      );
      expect(logged.slice(before).join()).toMatch(/"caller":"webhooks".*"method":"SubmitReturn"/);
      expect(await (await fetch(telemetry.metricsUrl)).text()).toMatch(
        /rpc_server_errors_total\{.*rpc_method=".*\/SubmitReturn",rpc_status_code="PERMISSION_DENIED"\} [1-9]/,
      );
    });

    test('a token without a name, as in development, may call everything', async () => {
      const answers = await Promise.all(RPCS.map((method) => call(undefined, method)));
      expect(new Set(answers.map(({ code }) => code))).toEqual(new Set([Code.Unimplemented]));
    });
  });

  describe('people, API keys and partner apps', () => {
    const outside = [Actor_Kind.USER, Actor_Kind.API_KEY, Actor_Kind.PARTNER_APP];
    const firstRpcOf = (caller: string) => RPCS.find((rpc) => mayCall(caller, rpc.parent, rpc));

    test.each(CALLERS.filter((caller) => firstRpcOf(caller)))(
      '%s may act for them only if it is the gateway',
      async (caller) => {
        const method = firstRpcOf(caller);
        if (!method) throw new Error('no RPC');
        const codes = async (kinds: readonly Actor_Kind[]) =>
          Promise.all(kinds.map(async (kind) => (await call(caller, method, kind)).code));
        const expected = caller === 'gateway' ? Code.Unimplemented : Code.PermissionDenied;
        expect(await codes(outside)).toEqual(outside.map(() => expected));
        const inside = [Actor_Kind.SERVICE, Actor_Kind.SYSTEM];
        expect(await codes(inside)).toEqual(inside.map(() => Code.Unimplemented));
      },
    );
  });
});
