import { randomUUID } from 'node:crypto';
import { listShops } from '../../gateway/tenancy/shops.ts';
import { loadConfig } from '../../services/platform/process/config.ts';
import { runCommand } from '../../services/platform/process/run-command.ts';
import { LOCAL_ACTOR } from '../local/clients.ts';
import { freshSerial, makeFixture } from '../local/demo/fixtures.ts';
import { openAccess } from './access.ts';
import { demoShape } from './config.ts';

/** `node deploy/demo/more-returns.ts <count>` makes open returns in the first demo shop, and prints them as JSON. */
async function main(args: readonly string[], env: NodeJS.ProcessEnv): Promise<string> {
  const count = Number(args[0] ?? 1);
  const { clients, commerce, gatewayPool } = openAccess(loadConfig(demoShape, env));
  const [shop] = await listShops(gatewayPool);
  if (!shop) throw new Error('there is no demo shop yet');
  const { destinations } = await clients.destinations.listDestinations({
    shopId: shop.id,
    actor: LOCAL_ACTOR,
  });
  const context = {
    clients,
    commerce,
    seededAt: new Date(),
    shop: {
      id: Number(shop.id),
      currency: shop.currency,
      destinationId: Number(destinations[0]?.id),
    },
  };
  const made = [];
  for (let at = 0; at < count; at += 1) {
    made.push(await makeFixture(context, 'open', { key: randomUUID(), serial: freshSerial() }));
  }
  return JSON.stringify(made);
}

await runCommand('more-returns', () => main(process.argv.slice(2), process.env));
// The open connections would keep the process alive.
process.exit();
