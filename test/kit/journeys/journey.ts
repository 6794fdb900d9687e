import { connectServices, type Services } from '../../../gateway/services.ts';
import { Actor_Kind } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { forServices } from '../../../services/platform/services.ts';
import { during } from '../during.ts';
import { type Received, restClient, type Sent } from '../gateway/rest-client.ts';
import { type StackShop, startTestStack, type TestStack } from '../stack.ts';
import { until } from '../until.ts';

/** A running system as its callers use it: partners over REST, internal services over gRPC. */
export interface Journey {
  readonly stack: TestStack;
  /** Sends a request to the gateway. The default key is `all` of the first shop. */
  send(sent: Sent): Promise<Received>;
  readonly services: Services;
}

export interface StartedJourney extends Journey {
  stop(): Promise<void>;
}

export async function startJourney(args: readonly string[] = []): Promise<StartedJourney> {
  const stack = await startTestStack(args);
  const { services, close } = connectStack(stack);
  return {
    stack,
    send: restClient({
      gateway: { baseUrl: stack.file.base_url },
      key: stack.shop.api_keys.all ?? '',
    }),
    services,
    async stop() {
      close();
      await stack.stop();
    },
  };
}

/** A journey that starts before the tests of a file, and stops after them. */
export function journeyForTests(args: readonly string[] = []): Journey {
  const journey = during(() => startJourney(args));
  return {
    get stack() {
      return journey().stack;
    },
    get services() {
      return journey().services;
    },
    send: (sent) => journey().send(sent),
  };
}

/** gRPC clients of a stack's services, with this service token. */
export function connectStack(stack: Pick<TestStack, 'file'>, token = stack.file.grpc.token ?? '') {
  return connectServices(
    forServices((name) => stack.file.grpc[name] ?? ''),
    { identity: { token: async () => token } },
  );
}

/** The shop and the actor of a test's RPCs. */
export function callIn(shop: StackShop) {
  return {
    shopId: BigInt(shop.id),
    actor: { kind: Actor_Kind.SERVICE, id: 'journey-test', name: 'Journey test' },
  };
}

/** The first fixture with this name in the stack file. */
export function firstOf(shop: StackShop, name: string) {
  const [ref] = shop.fixtures.returns[name] ?? [];
  if (!ref) throw new Error(`shop ${shop.id} has no fixture ${name}`);
  return ref;
}

/** Waits until the return is in this state, over REST, and returns its details. */
export async function untilState(
  journey: Journey,
  id: number,
  state: string,
): Promise<Record<string, unknown>> {
  const path = `/api/2026-10/warehouse/return/details?return_id=${id}`;
  return until(async () => {
    const body = (await journey.send({ path })).body as Record<string, unknown>;
    return body.state === state && body;
  });
}
