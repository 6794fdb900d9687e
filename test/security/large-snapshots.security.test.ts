import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { ReturnsService } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { sampleEvent } from '../../services/contract/sample-event.ts';
import { type RunningServer, startGrpcServer } from '../../services/platform/rpc/server.ts';
import { newKeyringText, parseKeyring } from '../../services/platform/security/keyring.ts';
import { createSubscription } from '../../services/webhooks/subscriptions/subscription-store.ts';
import { createTestDatabase, type TestDatabase } from '../kit/database.ts';
import { newShop } from '../kit/services/running-service.ts';
import { until } from '../kit/until.ts';
import { type Receiver, startReceiver } from '../kit/webhooks/receiver.ts';
import { subscriptionFields } from '../kit/webhooks/subscription.ts';
import { type ProcessInCgroup, startInCgroup } from './process-in-cgroup.ts';

const MIB = 1024 * 1024;
/** Number of largest returns that are closed at the same time. Each belongs to another shop. */
const PARALLEL = 16;
/** Almost the maximum size of the details. */
const RETURN_BYTES = 23 * MIB;
const DELIVERED_MS = 120_000;
/**
 * Maximum part of the memory limit. At the limit the kernel first frees caches, so a process that needs too much may
 * survive for a while.
 */
const MAX_SHARE = 0.9;

let database: TestDatabase;
let returns: RunningServer;
let receiver: Receiver;
let service: ProcessInCgroup;

beforeAll(async () => {
  database = await createTestDatabase('webhooks');
  receiver = await startReceiver({ forgets: true });
  returns = await startGrpcServer({
    port: 0,
    routes: (router) =>
      router.service(ReturnsService, { getSnapshot: ({ shopId }) => largeReturn(shopId) }),
  });
});
afterAll(async () => {
  await service.stop();
  await receiver.stop();
  await returns.stop();
  await database.drop();
});

function largeReturn(shopId: bigint) {
  const { snapshot } = sampleEvent('return.closed', shopId);
  const [line] = snapshot?.lineItems ?? [];
  const [upload] = line?.uploads ?? [];
  if (!snapshot || !line || !upload) throw new Error('sample events carry a snapshot');
  const url = `https://x.example/${'x'.repeat(2_000)}`;
  const count = Math.ceil(RETURN_BYTES / (url.length + 90));
  const uploads = Array.from({ length: count }, () => ({ ...upload, url }));
  return { return: { ...snapshot, lineItems: [{ ...line, uploads }] } };
}

test('a webhooks service with the memory limit of its manifest delivers the largest returns of many shops', async () => {
  const keyring = newKeyringText();
  const shopIds = Array.from({ length: PARALLEL }, newShop);
  for (const shopId of shopIds) {
    await createSubscription(database.pool, shopId, {
      fields: subscriptionFields({ url: receiver.url }),
      offsetMs: 0,
      limitedDomain: () => undefined,
      keyring: parseKeyring(keyring),
    });
  }
  const delivered = new Set<string>();
  receiver.answer = (response, { headers, bytes }) => {
    expect(bytes.length).toBeGreaterThan(RETURN_BYTES - MIB);
    delivered.add(`${headers['webhook-id']}`);
    response.writeHead(200).end();
  };
  service = await startInCgroup(fileURLToPath(new URL('webhooks-process.ts', import.meta.url)), {
    DATABASE_URL: database.url,
    SERVICE_TOKEN: 't'.repeat(32),
    RETURNS_TARGET: `127.0.0.1:${returns.port}`,
    WEBHOOK_KEYRING: keyring,
    WEBHOOK_ALLOWED_ORIGINS: 'http://127.0.0.1:*',
    SHOPS: shopIds.join(),
  });
  await until((see) => see(delivered.size) === PARALLEL || !service.isRunning(), DELIVERED_MS);
  if (process.env.ATTACK_SECONDS !== undefined) {
    process.stdout.write(`peak ${Math.round(service.peakBytes() / MIB)} MiB\n`);
  }
  expect(service.isRunning()).toBe(true);
  expect(service.peakBytes()).toBeLessThanOrEqual(MAX_SHARE * service.limitBytes);
});
