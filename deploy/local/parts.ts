import { startControl } from './control/start.ts';
import { accountsOf } from './demo/people.ts';
import { seedContextOf, seedDemo } from './demo/seed.ts';
import { createShops } from './demo/shops.ts';
import { startSink } from './demo/sink.ts';
import { startBus } from './event-bus.ts';
import { startLocalGateway } from './gateway.ts';
import { startSignIn } from './identity/sign-in.ts';
import { startMailCatcher } from './mails.ts';
import type { Plan, Stopper } from './plan.ts';
import type { Database } from './postgres/database.ts';
import { openAccess } from './running.ts';
import { startServices } from './services.ts';
import { keepStackFile } from './stack-contents.ts';
import { step } from './step.ts';
import { welcome } from './welcome.ts';

/**
 * Starts everything that needs the database, writes the stack file, and prints how to use the stack.
 *
 * @param keep called with each started part, so that it is stopped at the end, in reverse order.
 */
export async function startParts(
  plan: Plan,
  database: Database,
  keep: <P extends Stopper>(part: P) => P,
): Promise<void> {
  const { kafka, demo } = plan.options;
  const bus = await step(kafka ? 'Kafka' : 'Event bus', async (report) =>
    keep(await startBus(plan, report)),
  );
  const services = await step('Services', async () =>
    keep(await startServices(plan, { database, bus })),
  );
  const mails = keep(await startMailCatcher());
  const gateway = await step('Gateway', async () =>
    keep(await startLocalGateway(plan, { database, services, bus, mails })),
  );
  const access = keep(openAccess(plan, { database, services }));
  const shops = await step(demo ? 'Demo data' : 'Sign-in', async (report) => {
    keep(await startSink(plan.ports.sink));
    const seeding = await seedContextOf(plan, access, report);
    const shopIds = demo ? await createShops(seeding) : [];
    keep(await startSignIn(plan, access.pools.gateway, accountsOf(plan.memory)));
    return demo ? seedDemo(seeding, shopIds) : [];
  });
  const running = { database, bus, services, gateway, access, shops, mails };
  const control = keep(await startControl(plan, running));
  keep(await keepStackFile(plan, running, control.url));
  console.log(welcome(plan, running, control.url));
}
