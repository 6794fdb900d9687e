import type pg from 'pg';
import { connectServices } from '../../gateway/services.ts';
import { staticIdentity } from '../../services/platform/identity.ts';
import { createPool } from '../../services/platform/postgres.ts';
import {
  createEmbeddedCommerce,
  type EmbeddedCommerce,
} from '../../services/returns/commerce/embedded.ts';
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
    {
      returns: config.RETURNS_TARGET,
      dispositions: config.DISPOSITIONS_TARGET,
      destinations: config.DESTINATIONS_TARGET,
      fraud: config.FRAUD_TARGET,
      carts: config.CARTS_TARGET,
      webhooks: config.WEBHOOKS_TARGET,
    },
    // The token without a caller's name is allowed to make every call.
    { identity: staticIdentity(config.SERVICE_TOKEN) },
  );
  return {
    clients: services,
    commerce: createEmbeddedCommerce(createPool(config.RETURNS_DATABASE_URL, { max: 1 })),
    gatewayPool: createPool(config.GATEWAY_DATABASE_URL, { max: 2 }),
  };
}
