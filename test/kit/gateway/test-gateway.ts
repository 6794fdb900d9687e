import { gatewayShape } from '../../../gateway/config.ts';
import type { GatewayOptions } from '../../../gateway/open-parts.ts';
import { type RunningGateway, startGateway } from '../../../gateway/start.ts';
import { createApiKey, type NewApiKey } from '../../../gateway/tenancy/api-keys.ts';
import { Actor_Kind } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { SCOPES } from '../../../services/contract/scopes.ts';
import { createTestDatabase, type TestDatabase } from '../database.ts';
import { testSettings } from '../settings.ts';
import { startFakeBackend } from './fake-backend.ts';
import type { FakeServices } from './fake-services.ts';

export const TEST_AUTHOR = {
  actor: { kind: Actor_Kind.SYSTEM, id: 'test', name: 'test' },
  source: 'test',
} as const;

export interface TestGateway {
  readonly gateway: RunningGateway;
  readonly services: FakeServices;
  readonly database: TestDatabase;
  /** A key of shop 1 with all scopes. Tests do not reach its limit. */
  readonly key: string;
  newKey(key?: Partial<NewApiKey>): Promise<string>;
  /** Adds a shop to the database of the gateway only. */
  newShop(o?: { readonly sandbox: boolean }): Promise<bigint>;
  resetServices(): void;
  stop(): Promise<void>;
}

/** A complete gateway on a free port, with fake services and its own database. */
export async function startTestGateway(
  options: Partial<GatewayOptions> = {},
): Promise<TestGateway> {
  const database = await createTestDatabase('gateway');
  const backend = await startFakeBackend();
  const targets = Object.entries(backend.targets);
  const gateway = await startGateway({
    ...testSettings(gatewayShape, {
      ...Object.fromEntries(targets.map(([name, at]) => [`${name.toUpperCase()}_TARGET`, at])),
      DATABASE_URL: database.url,
      API_CALENDAR: '2026-11-20',
      TRUSTED_PROXIES: '127.0.0.1',
      // Tests do not reach these limits.
      REST_PER_MINUTE: '100000',
      MAX_REQUESTS_IN_FLIGHT: '10000',
    }),
    // Tests need exact counts, also on a slow machine.
    limitTimeoutMs: 30_000,
    ...options,
    // Clients keep idle connections, which would delay each stop.
    httpLimits: { idleAtStopMs: 0, ...options.httpLimits },
  });
  const newShop: TestGateway['newShop'] = async ({ sandbox } = { sandbox: false }) => {
    const { rows } = await database.pool.query<{ id: bigint }>(
      `with founder as (
         insert into users (email) values (gen_random_uuid() || '@example.com') returning id
       )
       insert into shops (name, currency, founder_id, sandbox) select 'Shop', 'GBP', id, $1 from founder returning id`,
      [sandbox],
    );
    const [shop] = rows;
    if (!shop) throw new Error('no shop was made');
    return shop.id;
  };
  const newKey = async (key: Partial<NewApiKey> = {}): Promise<string> => {
    const defaults = { shopId: 1n, scopes: SCOPES, description: 'Test', by: TEST_AUTHOR };
    return (await createApiKey(database.pool, { ...defaults, ...key })).text;
  };
  await newShop();
  const key = await newKey();
  return {
    gateway,
    services: backend.services,
    database,
    key,
    newKey,
    newShop,
    resetServices: () => backend.reset(),
    async stop() {
      await gateway.stop();
      await backend.stop();
      await database.drop();
    },
  };
}
