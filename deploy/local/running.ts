import type pg from 'pg';
import { connectServices, type Services } from '../../gateway/services.ts';
import { createEmbeddedCommerce, type EmbeddedCommerce } from '../../services/commerce/embedded.ts';
import { createPool } from '../../services/platform/postgres/postgres.ts';
import { staticIdentity } from '../../services/platform/security/identity.ts';
import type { SeededShop } from './demo/shops.ts';
import type { LocalBus } from './event-bus.ts';
import type { LocalGateway } from './gateway.ts';
import type { MailCatcher } from './mails.ts';
import type { Plan, Stopper } from './plan.ts';
import type { Database } from './postgres/start.ts';
import type { LocalServices } from './services.ts';

/** The started parts of a stack. */
export interface Running {
  readonly database: Database;
  readonly bus: LocalBus;
  readonly services: LocalServices;
  readonly gateway: LocalGateway;
  readonly access: Access;
  readonly mails: MailCatcher;
  /** Empty without the demo. */
  readonly shops: readonly SeededShop[];
}

/** The local stack's own access to the system: RPC clients, the commerce ledger, and pools for tenancy and outbox. */
export interface Access extends Stopper {
  readonly clients: Services;
  readonly commerce: EmbeddedCommerce;
  readonly pools: Readonly<Record<'gateway' | 'returns' | 'migrator', pg.Pool>>;
}

/** Opens what demo data and the control server use. */
export function openAccess(
  plan: Plan,
  { database, services }: Pick<Running, 'database' | 'services'>,
): Access {
  const identity = staticIdentity(plan.memory.memory.serviceToken);
  const connected = connectServices(services.targets, { identity });
  const pools = {
    gateway: createPool(database.urlOf('gateway'), { max: 4 }),
    returns: createPool(database.urlOf('returns'), { max: 2 }),
    migrator: createPool(database.url, { max: 2 }),
  };
  return {
    clients: connected.services,
    commerce: createEmbeddedCommerce(pools.returns),
    pools,
    async stop() {
      connected.close();
      await Promise.all(Object.values(pools).map((pool) => pool.end()));
    },
  };
}
