import { newEventSignatures } from '../../services/platform/bus/event-signature.ts';
import type { ServiceIdentity } from '../../services/platform/identity.ts';
import type { Database } from './database.ts';
import { startBus } from './event-bus.ts';
import { eventKeyringOf } from './memory.ts';
import type { Backend, Plan } from './parts.ts';
import { startLocalServices } from './services.ts';
import { step } from './steps.ts';
import { tapBus } from './tapped-bus.ts';

/** Starts the event bus and the six services on a running database. */
export async function startBackend(
  plan: Plan,
  database: Database,
  identity: ServiceIdentity,
): Promise<Backend> {
  const { options, externalSystems, folder, stoppers } = plan;
  const { memory } = plan.memory;
  const local = await step(options.kafka ? 'Kafka' : 'Event bus', (progress) =>
    startBus({
      kafka: options.kafka,
      brokers: externalSystems.kafkaBrokers,
      folder,
      port: memory.ports.kafka,
      logLevel: externalSystems.logLevel,
      progress,
    }),
  );
  stoppers.push(local);
  const tapped = tapBus(local.bus);
  const services = await step('Services', () =>
    startLocalServices({
      memory,
      database,
      bus: tapped.bus,
      eventSignatures: newEventSignatures(eventKeyringOf(plan.memory)),
      identity,
      logLevel: externalSystems.logLevel,
      calendar: options.calendar,
      ownPorts: ownPorts(memory.ports),
    }),
  );
  stoppers.push({ stop: () => services.stopAll() });
  return { database, local, tapped, services };
}

/** The ports of the stack, to which no webhooks are delivered, except the port of the sink. */
function ownPorts(ports: Readonly<Record<string, number>>): number[] {
  return Object.entries(ports)
    .filter(([name]) => name !== 'sink')
    .map(([, port]) => port);
}
