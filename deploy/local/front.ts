import { connectServices } from '../../gateway/services.ts';
import { startGateway } from '../../gateway/start.ts';
import type { ServiceIdentity } from '../../services/platform/identity.ts';
import { createPool } from '../../services/platform/postgres.ts';
import { CALENDARS, gatewayOptions } from './gateway-options.ts';
import type { Access, Backend, Front, Plan } from './parts.ts';
import { step } from './steps.ts';

/** Starts the gateway and its additional listeners. */
export async function startFront(
  plan: Plan,
  backend: Backend,
  identity: ServiceIdentity,
): Promise<Front> {
  const { database, services } = backend;
  const { ports } = plan.memory.memory;
  const gateway = await step('Gateway', () =>
    startGateway(gatewayOptions(plan, { database, targets: services.targets, identity })),
  );
  plan.stoppers.push(gateway);
  const baseUrlAt: Record<string, string> = {};
  for (const { port, day } of CALENDARS) {
    const listener = await gateway.listenAt(new Date(`${day}T00:00:00Z`), ports[port]);
    plan.stoppers.push(listener);
    baseUrlAt[day] = listener.url;
  }
  return { gateway, baseUrlAt };
}

/** Opens the clients and pools that demo data and the control server use. */
export function openAccess(plan: Plan, backend: Backend, identity: ServiceIdentity): Access {
  const { database, services } = backend;
  const connected = connectServices(services.targets, { identity });
  const pools = {
    gateway: createPool(database.urlOf('gateway'), { max: 4 }),
    commerce: createPool(database.urlOf('returns'), { max: 2 }),
    migrator: createPool(database.url, { max: 2 }),
  };
  plan.stoppers.push({
    async stop() {
      connected.close();
      await Promise.all(Object.values(pools).map((pool) => pool.end()));
    },
  });
  return { clients: connected.services, pools };
}
