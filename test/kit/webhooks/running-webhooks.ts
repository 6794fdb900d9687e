import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { toBinary } from '@bufbuild/protobuf';
import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { Client } from '@connectrpc/connect';
import { type Event, EventSchema } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import { WebhooksService } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { SAMPLE_TIME } from '../../../services/contract/sample-return.ts';
import { type EventBus, eventsTopic } from '../../../services/platform/bus/event-bus.ts';
import { createInProcessBus } from '../../../services/platform/bus/in-process.ts';
import { signingBus } from '../../../services/platform/bus/signed-bus.ts';
import { createServiceClient } from '../../../services/platform/grpc/client.ts';
import { newKeyringText, parseKeyring } from '../../../services/platform/keyring.ts';
import { startWebhooks, type WebhooksOptions } from '../../../services/webhooks/start.ts';
import { createTestDatabase, type TestDatabase } from '../database/test-database.ts';
import { actor, eventSignatures, identity } from '../services/running-service.ts';

/** A request as it arrived. */
export interface Received {
  readonly path: string;
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

type Answer = (response: ServerResponse, received: Received, nth: number) => void | Promise<void>;

export interface Receiver {
  readonly url: string;
  readonly received: Received[];
  /** Most requests that were open at once. */
  readonly mostOpen: () => number;
  /** How it answers from now on; 200 at first. */
  answer: Answer;
  stop(): Promise<void>;
}

/** A partner's endpoint on loopback. */
export async function startReceiver(): Promise<Receiver> {
  let open = 0;
  let mostOpen = 0;
  const server = createServer(async (request, response) => {
    open += 1;
    mostOpen = Math.max(mostOpen, open);
    response.once('close', () => {
      open -= 1;
    });
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const received = {
      path: request.url ?? '',
      method: request.method ?? '',
      headers: request.headers,
      body: Buffer.concat(chunks).toString('utf8'),
    };
    receiver.received.push(received);
    await receiver.answer(response, received, receiver.received.length);
  });
  server.listen(0, '127.0.0.1');
  // One that a failed test left behind must not keep the run alive.
  server.unref();
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  const receiver: Receiver = {
    url: `http://127.0.0.1:${port}/hook`,
    received: [],
    mostOpen: () => mostOpen,
    answer: (response) => {
      response.writeHead(200).end('ok');
    },
    async stop() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
  return receiver;
}

export interface WebhooksUnderTest {
  readonly client: Client<typeof WebhooksService>;
  readonly db: TestDatabase;
  /** As the returns service publishes them. Resolves when the events were fanned out. */
  publish(...events: readonly Event[]): Promise<void>;
  /** The bus without signatures, as available to any writer of a topic. */
  readonly bus: EventBus;
  advance(seconds: number): void;
  /** What Prometheus reads. */
  metrics(): Promise<string>;
  /** A new subscription's id and secret. */
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

/** One keyring for all, so that a second process can decrypt what the first encrypted. */
export const keyring = parseKeyring(newKeyringText());

/** Runs the webhooks service with a new database, or with the database of an earlier one. */
export async function runWebhooks(
  o: Partial<WebhooksOptions> & { db?: TestDatabase } = {},
): Promise<WebhooksUnderTest> {
  const db = o.db ?? (await createTestDatabase('webhooks'));
  const bus = createInProcessBus();
  const running = await startWebhooks({
    port: 0,
    metricsPort: 0,
    databaseUrl: db.url,
    bus,
    eventSignatures,
    identity,
    logLevel: process.env.TEST_LOG_LEVEL ?? 'silent',
    returnsTarget: '127.0.0.1:1',
    allowedOrigins: ['http://127.0.0.1:*'],
    keyring,
    recordPausesMs: [1, 1],
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
    advance: (seconds) => running.advanceClock(seconds),
    metrics: async () => (await fetch(running.metricsUrl)).text(),
    async subscribe({ shopId, url, topic = 'return', trigger = 'return.closed' }) {
      const answer = await client.createSubscription({ shopId, actor, url, topic, trigger });
      return { id: answer.subscription?.id ?? 0n, secret: answer.secret };
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

/** All sample events have the same time. Here they get the time of their first publication. */
function occurrenceOf({ eventId, occurredAt }: Event) {
  if (occurredAt && timestampDate(occurredAt).getTime() !== SAMPLE_TIME.getTime()) return {};
  lastOccurrence = Math.max(lastOccurrence + 1, Date.now());
  const at = occurrences.get(eventId) ?? new Date(lastOccurrence);
  occurrences.set(eventId, at);
  return { occurredAt: timestampFromDate(at) };
}
