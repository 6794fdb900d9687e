import type { DescMethod, DescService } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { pino } from 'pino';
import { CartsService } from '../../../proto/gen/rms/carts/v1/carts_pb.ts';
import { Actor_Kind } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { DestinationsService } from '../../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { DispositionsService } from '../../../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import { EventsService } from '../../../proto/gen/rms/events/v1/events_service_pb.ts';
import { FraudService } from '../../../proto/gen/rms/fraud/v1/fraud_pb.ts';
import { ReturnsService } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { WebhooksService } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { staticIdentity } from '../identity.ts';
import { startServiceServer } from '../service-server.ts';
import { startTelemetry, type Telemetry } from '../telemetry.ts';
import { INTERNAL_CALLERS, mayCall, OWN_CALLERS } from './callers.ts';
import type { RunningServer } from './server.ts';
import { createGrpcTransport } from './transport.ts';

const OWN_SERVICES: readonly DescService[] = [
  ReturnsService,
  DispositionsService,
  DestinationsService,
  FraudService,
  CartsService,
  WebhooksService,
];
/** Each service that publishes also serves EventsService. */
const SERVICES: readonly DescService[] = [...OWN_SERVICES, EventsService];
const RPCS = SERVICES.flatMap((service) => service.methods);
const CALLERS = [...OWN_CALLERS, ...INTERNAL_CALLERS];
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
  test.each([...CALLERS, STRANGER])('%s may call exactly what the table lists', async (caller) => {
    const answers = await Promise.all(RPCS.map((method) => call(caller, method)));
    const allowed = RPCS.filter((_, at) => answers[at]?.code === Code.Unimplemented);
    const refused = RPCS.filter((_, at) => answers[at]?.code === Code.PermissionDenied);
    const listed = RPCS.filter((method) => mayCall(caller, method.parent, method));
    expect(namesOf(allowed)).toEqual(namesOf(listed));
    expect(allowed.length + refused.length).toBe(RPCS.length);
  });

  test('has the edges of docs/architecture.md between our own processes', () => {
    const edges = OWN_CALLERS.flatMap((caller) =>
      SERVICES.filter((service) =>
        service.methods.some((one) => mayCall(caller, service, one)),
      ).map((service) => `${caller} -> ${service.name}`),
    );
    expect(edges).toEqual([
      ...OWN_SERVICES.map((service) => `gateway -> ${service.name}`),
      'gateway -> EventsService',
      'returns -> DestinationsService',
      'returns -> EventsService',
      'dispositions -> ReturnsService',
      'fraud -> ReturnsService',
      'webhooks -> ReturnsService',
      'webhooks -> EventsService',
    ]);
  });

  test('lists a caller for every RPC, and every listed account exists', () => {
    const unreachable = RPCS.filter((rpc) => !CALLERS.some((one) => mayCall(one, rpc.parent, rpc)));
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
      /rpc_server_errors_total\{.*rpc_method="SubmitReturn".*"PermissionDenied".*\} [1-9]/,
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
