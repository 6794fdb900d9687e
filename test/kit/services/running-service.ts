import { create, type DescService, fromBinary } from '@bufbuild/protobuf';
import { type Client, ConnectError } from '@connectrpc/connect';
import { type Actor, Actor_Kind, ActorSchema } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import { type Event, EventSchema } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { newEventSignatures } from '../../../services/platform/bus/event-signature.ts';
import { createInProcessBus } from '../../../services/platform/bus/in-process.ts';
import { serviceShape } from '../../../services/platform/process/config.ts';
import { deadline } from '../../../services/platform/process/deadlines.ts';
import type { RunningService, ServiceOptions } from '../../../services/platform/process/service.ts';
import { createServiceClient } from '../../../services/platform/rpc/client.ts';
import { staticIdentity } from '../../../services/platform/security/identity.ts';
import { fieldOf, reasonOf } from '../../../services/platform/values/errors.ts';
import { createTestDatabase, type TestDatabase } from '../database.ts';
import { EVENT_KEYRING, SERVICE_TOKEN, testSettings } from '../settings.ts';

export const identity = staticIdentity(SERVICE_TOKEN);

/** The signatures of the events that services and tests publish. */
export const eventSignatures = newEventSignatures(EVENT_KEYRING);

/** The actor of calls in tests. */
export const actor: Actor = create(ActorSchema, {
  kind: Actor_Kind.USER,
  id: 'user-1',
  name: 'Test User',
});

export interface RunningTestService<S extends DescService> {
  readonly client: Client<S>;
  /** The gRPC name of the service. */
  readonly target: string;
  readonly db: TestDatabase;
  /** A shop's events in the outbox, oldest first. */
  events(shopId: bigint): Promise<Event[]>;
  stop(): Promise<void>;
}

/** Runs a service with a new database, and a client of its RPCs. */
export async function runService<S extends DescService>(o: {
  readonly schema: string;
  readonly service: S;
  readonly start: (options: ServiceOptions) => Promise<RunningService>;
}): Promise<RunningTestService<S>> {
  const db = await createTestDatabase(o.schema);
  const bus = createInProcessBus();
  const running = await o.start({ ...testSettings(serviceShape, { DATABASE_URL: db.url }), bus });
  const target = `127.0.0.1:${running.port}`;
  const { client, close } = createServiceClient(o.service, {
    target,
    identity,
    timeoutMs: deadline(20_000),
  });
  return {
    client,
    target,
    db,
    events: (shopId) => eventsOf(db, shopId),
    async stop() {
      close();
      await running.stop();
      await bus.close();
      await db.drop();
    },
  };
}

/** A shop's events in the outbox of a service, oldest first. */
export async function eventsOf({ pool }: TestDatabase, shopId: bigint): Promise<Event[]> {
  const { rows } = await pool.query<{ value: Buffer }>(
    'select value from events where shop_id = $1 order by day, position',
    [shopId],
  );
  return rows.map((row) => fromBinary(EventSchema, row.value));
}

let lastShop = 0n;

/** The id of a shop that no other test of the file uses. */
export function newShop(): bigint {
  lastShop += 1n;
  return lastShop;
}

/** The error of a rejected call: code, name of the reason, and field. */
export async function refusal(call: Promise<unknown>) {
  const error = await call.then(
    () => undefined,
    (caught: unknown) => ConnectError.from(caught),
  );
  if (!error) throw new Error('the call did not fail');
  const reason = Object.entries(ErrorReason).find(([, value]) => value === reasonOf(error))?.[0];
  return { code: error.code, reason, field: fieldOf(error) };
}
