import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { DestinationsService } from '../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { startDestinations } from '../../services/destinations/start.ts';
import { runAdmin } from '../../test/kit/gateway/run-admin.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import {
  identity,
  type RunningTestService,
  runService,
} from '../../test/kit/services/running-service.ts';
import { connectServices } from '../services.ts';

let under: TestGateway;
let service: RunningTestService<typeof DestinationsService>;
let clients: ReturnType<typeof connectServices>;

beforeAll(async () => {
  under = await startTestGateway();
  service = await runService({
    schema: 'destinations',
    service: DestinationsService,
    start: startDestinations,
  });
  const { target } = service;
  const unused = { returns: target, dispositions: target, fraud: target };
  const targets = { ...unused, carts: target, webhooks: target, destinations: target };
  clients = connectServices(targets, { identity });
});
afterAll(async () => {
  clients.close();
  await service.stop();
  await under.stop();
});

/** Creates a shop, and returns its `destination` commands. */
async function shopCommands() {
  const shop = `${await under.newShop()}`;
  const context = { pool: under.database.pool, services: clients.services };
  const run = (command: 'create' | 'list', ...words: string[]) =>
    runAdmin(context, ['destination', command, '--shop', shop, ...words]);
  return {
    shop,
    create: (...words: string[]) => run('create', ...words),
    list: () => run('list'),
  };
}

const DEPOT = ['--name', 'Depot', '--address1', '1 Quay', '--zip', 'N1 1AA', '--country-code'];

describe('destination create', () => {
  test('creates a destination once for each name, and audits it', async () => {
    const { shop, create, list } = await shopCommands();
    expect(await list()).toEqual([]);
    const [line = ''] = await create(...DEPOT, 'gb');
    const [, id] = /^destination (\d+) "Depot" \(warehouse, GB\)$/.exec(line) ?? [];
    expect(await create(...DEPOT, 'gb')).toEqual([line]);
    const spelled = ['--name', ' Depot\u00a0', ...DEPOT.slice(2), 'gb'];
    expect(await create(...spelled)).toEqual([line]);
    const [other] = await create('--name', 'Gifts', '--type', 'donate', '--disabled');
    expect(other).toMatch(/^destination \d+ "Gifts" \(donate, disabled\)$/);
    expect(await list()).toEqual([line, other]);
    const { rows } = await under.database.pool.query(
      'select action, subject, detail from audit_log where shop_id = $1 order by id',
      [shop],
    );
    const detail = { name: 'Depot' };
    expect(rows[0]).toEqual({ action: 'destination.created', subject: id, detail });
  });

  test('prints why it created no destination', async () => {
    const { shop, create, list } = await shopCommands();
    await create(...DEPOT, 'GB');
    for (const [words, reason] of [
      [[...DEPOT, 'FR'], `this command created "Depot" in shop ${shop} before, with other values`],
      [['--name', 'GBR', '--country-code', 'GBR'], 'address.country_code must be two letters'],
      [['--name', 'x'.repeat(192)], 'name must be at most 191 characters'],
      [['--name', ' '], 'name is required'],
      [['--name', 'Shop', '--type', 'shop'], 'must be one of warehouse, donate'],
      [[], '--name'],
      [['--name', 'Depot', '--shop', '999999'], 'no shop 999999'],
    ] as const) {
      await expect(create(...words)).rejects.toThrow(reason);
    }
    expect(await list()).toHaveLength(1);
  });
});
