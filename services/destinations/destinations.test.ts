import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  DestinationsService,
  DestinationType,
} from '../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import {
  actor,
  newShop,
  type RunningTestService,
  refusal,
  runService,
} from '../../test/kit/services/running-service.ts';
import { startDestinations } from './service.ts';

let service: RunningTestService<typeof DestinationsService>;
beforeAll(async () => {
  service = await runService({
    schema: 'destinations',
    service: DestinationsService,
    start: startDestinations,
  });
});
afterAll(() => service.stop());

let keys = 0;
const nextKey = () => `key-${++keys}`;

async function createDepot(shopId: bigint, more: object = {}) {
  const request = { shopId, actor, idempotencyKey: nextKey(), name: 'Depot', ...more };
  const { destination } = await service.client.createDestination(request);
  if (!destination) throw new Error('no destination in the response');
  return destination;
}
const invalid = (field: string) => ({ code: Code.InvalidArgument, reason: 'INVALID_FIELD', field });

describe('create destination', () => {
  test('stores an enabled warehouse without a location by default', async () => {
    const shopId = newShop();
    const created = await createDepot(shopId);
    expect(created).toMatchObject({
      name: 'Depot',
      type: DestinationType.WAREHOUSE,
      enabled: true,
      providerLocationId: 0n,
    });
    const { destination } = await service.client.getDestination({
      shopId,
      actor,
      destinationId: created.id,
    });
    expect(destination).toEqual(created);
  });

  test('publishes an event', async () => {
    const shopId = newShop();
    const { id } = await createDepot(shopId);
    expect(await service.events(shopId)).toMatchObject([
      {
        trigger: 'destination.changed',
        shopId,
        actor,
        detail: { case: 'destination', value: { destinationId: id } },
      },
    ]);
  });

  test('returns the same destination for the same key and content, and publishes one event', async () => {
    const shopId = newShop();
    const request = { shopId, actor, idempotencyKey: nextKey(), name: 'Depot' };
    const calls = Array.from({ length: 8 }, () => service.client.createDestination(request));
    const ids = (await Promise.all(calls)).map(({ destination }) => destination?.id);
    expect(new Set(ids).size).toBe(1);
    expect(await service.events(shopId)).toHaveLength(1);
  });

  test('rejects a key that was used with other content', async () => {
    const shopId = newShop();
    const request = { shopId, actor, idempotencyKey: nextKey(), name: 'Depot' };
    await service.client.createDestination(request);
    const again = service.client.createDestination({ ...request, name: 'Other' });
    expect(await refusal(again)).toEqual({
      code: Code.AlreadyExists,
      reason: 'IDEMPOTENCY_CONFLICT',
      field: 'idempotency_key',
    });
  });

  test('keeps the keys of shops apart', async () => {
    const request = { actor, idempotencyKey: nextKey() };
    const first = await service.client.createDestination({
      ...request,
      shopId: newShop(),
      name: 'A',
    });
    const other = await service.client.createDestination({
      ...request,
      shopId: newShop(),
      name: 'B',
    });
    expect(first.destination?.id).not.toBe(other.destination?.id);
  });

  test('rejects the 1,001st destination of a shop, also with concurrent calls', async () => {
    const shopId = newShop();
    await createDepot(shopId);
    await service.db.pool.query('update shop_quotas set destinations = 999 where shop_id = $1', [
      shopId,
    ]);
    const calls = Array.from({ length: 4 }, () => createDepot(shopId));
    const refused = await Promise.allSettled(calls.map(refusal));
    expect(refused.filter(({ status }) => status === 'rejected')).toHaveLength(1);
    expect(refused.filter(({ status }) => status === 'fulfilled')).toHaveLength(3);
    expect(await refusal(createDepot(shopId))).toEqual({
      code: Code.ResourceExhausted,
      reason: 'QUOTA_EXCEEDED',
      field: undefined,
    });
    await createDepot(newShop());
  });

  test.each([
    ['without a key', { idempotencyKey: '' }, 'idempotency_key'],
    [
      'with a key of more than 200 characters',
      { idempotencyKey: 'k'.repeat(201) },
      'idempotency_key',
    ],
    ['without a name', { name: '' }, 'name'],
    ['with a name of blanks', { name: ' \t\u00a0' }, 'name'],
    ['with a name of more than 191 characters', { name: 'x'.repeat(192) }, 'name'],
    ['with NUL in its name', { name: 'a\0b' }, 'name'],
    ['of an unknown type', { type: 9 }, 'type'],
    [
      'with a country code of three letters',
      { address: { countryCode: 'GBR' } },
      'address.country_code',
    ],
    ['with a country code of digits', { address: { countryCode: '44' } }, 'address.country_code'],
    ['with an address line that is too long', { address: { zip: 'x'.repeat(256) } }, 'address.zip'],
  ])('rejects one %s', async (_, change, field) => {
    expect(await refusal(createDepot(newShop(), change))).toEqual(invalid(field));
  });

  test('counts Unicode characters', async () => {
    const name = '\u{1f4e6}'.repeat(191);
    expect((await createDepot(newShop(), { name })).name).toBe(name);
    expect(await refusal(createDepot(newShop(), { name: `${name}x` }))).toEqual(invalid('name'));
  });

  test('stores a text exactly as sent', async () => {
    expect((await createDepot(newShop(), { name: '  Depot ' })).name).toBe('  Depot ');
  });
});

describe('address', () => {
  test.each([
    ['gb', '', 'GB', 'United Kingdom'],
    ['DE', 'Deutschland', 'DE', 'Deutschland'],
    ['XX', '', 'XX', ''],
    ['', '', '', ''],
  ])('of code %j and country %j', async (countryCode, country, storedCode, storedCountry) => {
    const { address } = await createDepot(newShop(), { address: { countryCode, country } });
    expect(address).toMatchObject({ countryCode: storedCode, country: storedCountry });
  });

  test('stores every field, including the phone', async () => {
    const address = {
      name: 'Ann',
      company: 'Depot Ltd',
      address1: '1 High St',
      address2: 'Floor 2',
      city: 'Leeds',
      state: 'West Yorkshire',
      zip: 'LS1 1AA',
      country: 'United Kingdom',
      countryCode: 'GB',
      phone: '+44 113 000',
    };
    expect((await createDepot(newShop(), { address })).address).toMatchObject(address);
  });
});

describe('update destination', () => {
  const address = { city: 'Leeds', phone: '1' };

  test('does not change absent fields', async () => {
    const shopId = newShop();
    const made = await createDepot(shopId, {
      type: DestinationType.DONATE,
      enabled: false,
      address,
    });
    const { destination } = await service.client.updateDestination({
      shopId,
      actor,
      destinationId: made.id,
      name: 'North',
    });
    expect(destination).toMatchObject({
      id: made.id,
      name: 'North',
      type: DestinationType.DONATE,
      enabled: false,
      address,
    });
  });

  test('that expects what it replaces overwrites no later change of the same value', async () => {
    const { client } = service;
    const shopId = newShop();
    const { id: destinationId } = await createDepot(shopId, { address });
    const update = (more: object) =>
      client.updateDestination({ shopId, actor, destinationId, name: 'Depot', ...more });
    const mine = { name: 'Depot', enabled: true, address: { city: 'York', countryCode: 'gb' } };
    const undo = { address, expected: mine };
    await update({ address: mine.address });
    await update({ enabled: false });
    expect((await update(undo)).destination).toMatchObject({ address, enabled: false });
    await update({ address: { city: 'Hull' } });
    const conflict = (field: string) => ({ reason: 'REVISION_CONFLICT', field });
    expect(await refusal(update(undo))).toMatchObject(conflict('expected.address'));
    await update({ name: 'North' });
    expect(await refusal(update(undo))).toMatchObject(conflict('expected.name'));
  });

  test('replaces the whole address when the request has one', async () => {
    const shopId = newShop();
    const made = await createDepot(shopId, { address });
    const { destination } = await service.client.updateDestination({
      shopId,
      actor,
      destinationId: made.id,
      name: 'Depot',
      type: DestinationType.DONATE,
      enabled: false,
      address: { countryCode: 'fr' },
    });
    expect(destination).toMatchObject({
      type: DestinationType.DONATE,
      enabled: false,
      address: { city: '', phone: '', countryCode: 'FR', country: 'France' },
    });
  });

  test('publishes an event for a change, and none for a repeat', async () => {
    const shopId = newShop();
    const { id } = await createDepot(shopId);
    const edit = { shopId, actor, destinationId: id, name: 'North' };
    const first = await service.client.updateDestination(edit);
    const repeat = await service.client.updateDestination(edit);
    expect(repeat.destination).toEqual(first.destination);
    expect(await service.events(shopId)).toHaveLength(2);
  });

  test('requires a name', async () => {
    const shopId = newShop();
    const { id } = await createDepot(shopId);
    const edit = service.client.updateDestination({ shopId, actor, destinationId: id, name: ' ' });
    expect(await refusal(edit)).toEqual(invalid('name'));
  });
});

describe('link location', () => {
  test('sets and clears the provider’s location, and publishes an event for each', async () => {
    const shopId = newShop();
    const { id: destinationId } = await createDepot(shopId);
    const link = (providerLocationId: bigint) =>
      service.client.linkLocation({ shopId, actor, destinationId, providerLocationId });
    expect((await link(2n ** 53n - 1n)).destination?.providerLocationId).toBe(2n ** 53n - 1n);
    expect((await link(0n)).destination?.providerLocationId).toBe(0n);
    expect(await service.events(shopId)).toHaveLength(3);
    expect(await refusal(link(2n ** 53n))).toEqual(invalid('provider_location_id'));
    expect(await refusal(link(-1n))).toEqual(invalid('provider_location_id'));
  });
});

describe('list destinations', () => {
  test('returns all destinations of the shop ordered by id, and none of another shop', async () => {
    const shopId = newShop();
    await createDepot(newShop());
    const first = await createDepot(shopId, { name: 'Z' });
    const second = await createDepot(shopId, { name: 'A' });
    const { destinations } = await service.client.listDestinations({ shopId, actor });
    expect(destinations).toEqual([first, second]);
  });
});

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
