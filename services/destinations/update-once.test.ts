import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { DestinationsService } from '../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import {
  actor,
  newShop,
  type RunningTestService,
  refusal,
  runService,
} from '../../test/kit/services/running-service.ts';
import { startDestinations } from './start.ts';

let service: RunningTestService<typeof DestinationsService>;
beforeAll(async () => {
  service = await runService({
    schema: 'destinations',
    service: DestinationsService,
    start: startDestinations,
  });
});
afterAll(() => service.stop());

test('an update with a key is made once: a repeat returns the destination as it is now', async () => {
  const shopId = newShop();
  const depot = { shopId, actor, idempotencyKey: 'k-0', name: 'Depot' };
  const { destination } = await service.client.createDestination(depot);
  const destinationId = destination?.id ?? 0n;
  const update = (name: string, idempotencyKey = '') =>
    service.client.updateDestination({ shopId, actor, destinationId, name, idempotencyKey });
  expect((await update('North', 'k-1')).previous).toMatchObject({ name: 'Depot' });
  expect((await update('South')).previous).toMatchObject({ name: 'North' });
  expect((await update('South')).previous).toBeUndefined();
  const repeated = await update('North', 'k-1');
  expect(repeated.destination).toMatchObject({ name: 'South' });
  expect(repeated.previous).toBeUndefined();
  expect(await refusal(update('East', 'k-1'))).toMatchObject({ reason: 'IDEMPOTENCY_CONFLICT' });
});

test('a location is linked once per key, also when two calls race', async () => {
  const shopId = newShop();
  const depot = { shopId, actor, idempotencyKey: 'k-0', name: 'Depot' };
  const { destination } = await service.client.createDestination(depot);
  const destinationId = destination?.id ?? 0n;
  const link = (providerLocationId: bigint, idempotencyKey = '') =>
    service.client.linkLocation({
      shopId,
      actor,
      destinationId,
      providerLocationId,
      idempotencyKey,
    });
  await Promise.all([link(5n, 'k-1'), link(5n, 'k-1')]);
  await link(6n);
  expect((await link(5n, 'k-1')).destination).toMatchObject({ providerLocationId: 6n });
  expect(await service.events(shopId)).toHaveLength(3);
  expect(await refusal(link(7n, 'k-1'))).toMatchObject({ reason: 'IDEMPOTENCY_CONFLICT' });
  expect(await refusal(link(7n, 'k'.repeat(201)))).toMatchObject({ field: 'idempotency_key' });
});
