import { toBinary } from '@bufbuild/protobuf';
import { timestampNow } from '@bufbuild/protobuf/wkt';
import { type Event, EventSchema } from '../../proto/gen/rms/events/v1/events_pb.ts';
import { sampleEvent } from '../../services/contract/sample-event.ts';
import { eventsTopic } from '../../services/platform/bus/event-bus.ts';
import { newEventSignatures } from '../../services/platform/bus/event-signature.ts';
import { createInProcessBus } from '../../services/platform/bus/in-process.ts';
import { signingBus } from '../../services/platform/bus/signed-bus.ts';
import { loadConfig } from '../../services/platform/process/config.ts';
import { newKeyringText } from '../../services/platform/security/keyring.ts';
import { webhooksShape } from '../../services/webhooks/config.ts';
import { startWebhooks } from '../../services/webhooks/start.ts';

// The webhooks service without Kafka, as a separate process. It logs its port. For each shop in SHOPS it gets one event
// without its snapshot, in concurrent batches.

const EVENT_KEYRING = newKeyringText();
const BATCH_SIZE = 4;
const settings = loadConfig(webhooksShape, {
  ...process.env,
  PORT: '0',
  METRICS_PORT: '0',
  KAFKA_BROKERS: 'none:1',
  EVENT_KEYRING,
});
const bus = createInProcessBus();
const running = await startWebhooks({ ...settings, bus });
process.once('SIGTERM', () => void running.stop());

const signed = signingBus(bus, newEventSignatures(EVENT_KEYRING));

async function publish(shopIds: readonly string[]): Promise<void> {
  const records = shopIds.map((shopId) => {
    const { snapshot: _, ...event } = sampleEvent('return.closed', BigInt(shopId));
    const omitted: Event = { ...event, occurredAt: timestampNow(), snapshotOmitted: true };
    const value = toBinary(EventSchema, omitted);
    return { key: `${shopId}:${event.returnId}`, value, headers: {} };
  });
  await signed.publish(eventsTopic('returns'), records);
}

const shopIds = process.env.SHOPS?.split(',') ?? [];
const published: Promise<void>[] = [];
for (let at = 0; at < shopIds.length; at += BATCH_SIZE) {
  published.push(publish(shopIds.slice(at, at + BATCH_SIZE)));
}
// They are rejected when the process stops before the events are handled.
await Promise.allSettled(published);
