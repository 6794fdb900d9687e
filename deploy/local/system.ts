import { staticIdentity } from '../../services/platform/identity.ts';
import { startBackend } from './backend.ts';
import type { Database } from './database.ts';
import { runDemo } from './demo/run.ts';
import { openAccess, startFront } from './front.ts';
import type { Plan } from './parts.ts';
import { publish } from './publish.ts';
import { step } from './steps.ts';

/** Starts everything that needs the database: bus, services, gateway, demo data, control server. */
export async function startSystem(plan: Plan, database: Database): Promise<void> {
  const identity = staticIdentity(plan.memory.memory.serviceToken);
  const backend = await startBackend(plan, database, identity);
  const front = await startFront(plan, backend, identity);
  const access = openAccess(plan, backend, identity);
  const title = plan.options.demo ? 'Demo data' : 'Sign-in';
  const shops = await step(title, (report) => runDemo(plan, access, report));
  await publish(plan, { ...backend, ...front, ...access, shops });
}
