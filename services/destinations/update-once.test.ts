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
  await update('North', 'k-1');
  await update('South');
  expect((await update('North', 'k-1')).destination).toMatchObject({ name: 'South' });
  expect(await refusal(update('East', 'k-1'))).toMatchObject({ reason: 'IDEMPOTENCY_CONFLICT' });
});
