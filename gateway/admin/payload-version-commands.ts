import { Command } from 'commander';
import { RELEASED } from '../../services/contract/versions.ts';
import { recordAudit } from '../tenancy/audit.ts';
import { requireShop } from '../tenancy/shops.ts';
import type { Print, Run } from './admin-context.ts';
import { releasedVersion, type ShopOption, shopId } from './arguments.ts';

/** `payload-version …`: the API version of a shop's webhook payloads. */
export function payloadVersionCommands(run: Run, print: Print): Command {
  const version = new Command('payload-version').description(
    "show or set the version of a shop's webhook payloads",
  );
  version
    .command('show')
    .description('show the version of payloads today')
    .requiredOption('--shop <id>', 'the shop', shopId)
    .action(({ shop }: ShopOption) =>
      run(async ({ pool, services, by: { actor } }) => {
        await requireShop(pool, shop);
        print((await services.webhooks.getPayloadVersion({ shopId: shop, actor })).version);
      }),
    );
  version
    .command('set')
    .description('set the version for payloads of later events, for all webhooks of the shop')
    .requiredOption('--shop <id>', 'the shop', shopId)
    .argument('<version>', `a supported version, of ${RELEASED.join(', ')}`, releasedVersion)
    .action((newVersion: string, { shop }: ShopOption) =>
      run(async ({ pool, services, by }) => {
        await requireShop(pool, shop);
        const { actor } = by;
        await services.webhooks.setPayloadVersion({ shopId: shop, actor, version: newVersion });
        const [subject, action, detail] = [
          `${shop}`,
          'payload_version.set',
          { version: newVersion },
        ];
        await recordAudit(pool, { shopId: shop, by, action, subject, detail });
        print(`shop ${shop}: payloads of events from now on are shaped for ${newVersion}`);
      }),
    );
  return version;
}
