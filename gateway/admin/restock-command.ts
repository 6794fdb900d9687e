import { Command, Option } from 'commander';
import { RestockModeSchema } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { enumText } from '../../services/platform/enum-text.ts';
import { sent } from '../actions/context.ts';
import { recordAudit } from '../tenancy/audit.ts';
import { requireShop } from '../tenancy/shops.ts';
import type { Print, Run } from './admin-context.ts';
import { shopId } from './arguments.ts';

const MODE = enumText(RestockModeSchema);

interface RestockOptions {
  readonly shop: bigint;
  readonly mode?: string;
}

/** `shop restock`: shows or sets how the goods of a shop return to stock when a return is processed. */
export function restockCommand(run: Run, print: Print): Command {
  return new Command('restock')
    .description('show or set how goods return to stock when a return is processed')
    .requiredOption('--shop <id>', 'the shop', shopId)
    .addOption(
      new Option(
        '--mode <mode>',
        'off; webhook: restock.requested is sent; provider: the commerce provider is asked',
      ).choices(['off', 'webhook', 'provider']),
    )
    .action(({ shop, mode }: RestockOptions) =>
      run(async ({ pool, services, by }) => {
        await requireShop(pool, shop);
        const call = { shopId: shop, actor: by.actor };
        if (mode === undefined) {
          const { settings } = await services.returns.getSettings(call);
          print(MODE.toText(sent(settings, 'settings').restockMode));
          return;
        }
        const settings = { restockMode: MODE.fromText(mode) };
        await services.returns.updateSettings({ ...call, settings });
        const [subject, action, detail] = [`${shop}`, 'shop.restock.set', { mode }];
        await recordAudit(pool, { shopId: shop, by, action, subject, detail });
        print(`shop ${shop} restocks: ${mode}`);
      }),
    );
}
