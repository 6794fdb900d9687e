import { newEventSignatures } from '../../services/platform/bus/event-signature.ts';
import type { ServiceIdentity } from '../../services/platform/identity.ts';
import type { Database } from './database.ts';
import { startBus } from './event-bus.ts';
import { eventKeyringOf } from './memory.ts';
import type { Backend, Plan } from './parts.ts';
import { startLocalServices } from './services.ts';
import { step } from './steps.ts';
import { tapBus } from './tapped-bus.ts';

/** Starts event bus and the six services over a database that is there. */
export async function startBackend(
  plan: Plan,
  database: Database,
  identity: ServiceIdentity,
): Promise<Backend> {
  const { options, surroundings, folder, stoppers } = plan;
  const { memory } = plan.memory;
  const local = await step(options.kafka ? 'Kafka' : 'Event bus', (progress) =>
    startBus({
      kafka: options.kafka,
      brokers: surroundings.kafkaBrokers,
      folder,
      port: memory.ports.kafka,
      logLevel: surroundings.logLevel,
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
      logLevel: surroundings.logLevel,
      calendar: options.calendar,
      ownPorts: ownPorts(memory.ports),
    }),
  );
  stoppers.push({ stop: () => services.stopAll() });
  return { database, local, tapped, services };
}

/** No webhook goes to a port of the stack itself; the sink is there to receive some. */
function ownPorts(ports: Readonly<Record<string, number>>): number[] {
  return Object.entries(ports)
    .filter(([name]) => name !== 'sink')
    .map(([, port]) => port);
}
