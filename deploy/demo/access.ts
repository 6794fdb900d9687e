import type pg from 'pg';
import { connectServices, targetsOf } from '../../gateway/services.ts';
import { createEmbeddedCommerce, type EmbeddedCommerce } from '../../services/commerce/embedded.ts';
import { createPool } from '../../services/platform/postgres/postgres.ts';
import { staticIdentity } from '../../services/platform/security/identity.ts';
import type { Clients } from '../local/clients.ts';
import type { DemoConfig } from './config.ts';

/** What the demo needs of the system. */
export interface Access {
  readonly clients: Clients;
  readonly commerce: EmbeddedCommerce;
  readonly gatewayPool: pg.Pool;
}

/** Opens the connections at first use, so the system may start later. */
export function openAccess(config: DemoConfig): Access {
  const { services } = connectServices(
    targetsOf(config),
    // The token without a caller's name is allowed to make every call.
    { identity: staticIdentity(config.SERVICE_TOKEN) },
  );
  return {
    clients: services,
    commerce: createEmbeddedCommerce(createPool(config.RETURNS_DATABASE_URL, { max: 1 })),
    gatewayPool: createPool(config.GATEWAY_DATABASE_URL, { max: 2 }),
  };
}
