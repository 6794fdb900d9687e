import { toBinary } from '@bufbuild/protobuf';
import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { Client } from '@connectrpc/connect';
import { type Event, EventSchema } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { WebhooksService } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { SAMPLE_TIME } from '../../../services/contract/sample-return.ts';
import { type EventBus, eventsTopic } from '../../../services/platform/bus/event-bus.ts';
import { createInProcessBus } from '../../../services/platform/bus/in-process.ts';
import { signingBus } from '../../../services/platform/bus/signed-bus.ts';
import { createServiceClient } from '../../../services/platform/rpc/client.ts';
import { newKeyringText, parseKeyring } from '../../../services/platform/security/keyring.ts';
import { webhooksShape } from '../../../services/webhooks/config.ts';
import { startWebhooks, type WebhooksOptions } from '../../../services/webhooks/start.ts';
import { createTestDatabase, type TestDatabase } from '../database.ts';
import { actor, eventSignatures, eventsOf, identity } from '../services/running-service.ts';
import { testSettings } from '../settings.ts';

export interface WebhooksUnderTest {
  readonly client: Client<typeof WebhooksService>;
  readonly db: TestDatabase;
  /** Publishes events like the returns service. Resolves when the fan-out is done. */
  publish(...events: readonly Event[]): Promise<void>;
  /** A shop's events in the outbox of the webhooks service, oldest first. */
  events(shopId: bigint): Promise<Event[]>;
  /** The bus without signatures, which any writer of a topic can use. */
  readonly bus: EventBus;
  advance(seconds: number): void;
  /** The metrics that Prometheus reads. */
  metrics(): Promise<string>;
  /** Creates a subscription, and returns its id and secret. */
  subscribe(o: {
    shopId: bigint;
    url: string;
    topic?: string;
    trigger?: string;
  }): Promise<{ id: bigint; secret: string }>;
  /** A shop's deliveries, newest first, bodies included. */
  deliveries(
    shopId: bigint,
  ): Promise<Awaited<ReturnType<Client<typeof WebhooksService>['listDeliveries']>>['deliveries']>;
  stop(): Promise<void>;
}

/** One keyring for all processes, so that a second process can decrypt the data of the first. */
const WEBHOOK_KEYRING = newKeyringText();
export const keyring = parseKeyring(WEBHOOK_KEYRING);

/** Long, so that a slow machine keeps the shards. Otherwise it repeats deliveries, and failures do not count. */
const LEASE_MS = 60_000;

/** Settings of the webhooks service that allow deliveries to this machine. */
export function webhooksSettings(DATABASE_URL: string) {
  return testSettings(webhooksShape, {
    DATABASE_URL,
    RETURNS_TARGET: '127.0.0.1:1',
    WEBHOOK_KEYRING,
    WEBHOOK_ALLOWED_ORIGINS: 'http://127.0.0.1:*',
  });
}

/** Runs the webhooks service with a new database, or with the database of an earlier service. */
export async function runWebhooks(
  o: Partial<WebhooksOptions> & { db?: TestDatabase } = {},
): Promise<WebhooksUnderTest> {
  const db = o.db ?? (await createTestDatabase('webhooks'));
  const bus = o.bus ?? createInProcessBus();
  const running = await startWebhooks({
    ...webhooksSettings(db.url),
    bus,
    recordPausesMs: [1, 1],
    leaseMs: LEASE_MS,
    ...o,
  });
  const target = `127.0.0.1:${running.port}`;
  const { client, close } = createServiceClient(WebhooksService, { target, identity });
  return {
    client,
    db,
    bus,
    async publish(...events) {
      const records = events.map((event) => ({
        key: `${event.shopId}:${event.returnId}`,
        value: toBinary(EventSchema, { ...event, ...occurrenceOf(event) }),
        headers: {},
      }));
      await signingBus(bus, eventSignatures).publish(eventsTopic('returns'), records);
    },
    events: (shopId) => eventsOf(db, shopId),
    advance: (seconds) => running.advanceClock(seconds),
    metrics: async () => (await fetch(running.metricsUrl)).text(),
    async subscribe({ shopId, url, topic = 'return', trigger = 'return.closed' }) {
      const response = await client.createSubscription({ shopId, actor, url, topic, trigger });
      return { id: response.subscription?.id ?? 0n, secret: response.secret };
    },
    async deliveries(shopId) {
      const request = { shopId, actor, includeBodies: true, pageSize: 200 };
      return (await client.listDeliveries(request)).deliveries;
    },
    async stop() {
      close();
      await running.stop();
      await bus.close();
      if (!o.db) await db.drop();
    },
  };
}

const occurrences = new Map<string, Date>();
let lastOccurrence = 0;

/** All sample events have the same time. This function returns the time of their first publication. */
function occurrenceOf({ eventId, occurredAt }: Event) {
  if (occurredAt && timestampDate(occurredAt).getTime() !== SAMPLE_TIME.getTime()) return {};
  lastOccurrence = Math.max(lastOccurrence + 1, Date.now());
  const at = occurrences.get(eventId) ?? new Date(lastOccurrence);
  occurrences.set(eventId, at);
  return { occurredAt: timestampFromDate(at) };
}
