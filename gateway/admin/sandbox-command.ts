import { Command } from 'commander';
import { recordAudit } from '../tenancy/audit.ts';
import { requireShop } from '../tenancy/shops.ts';
import type { Print, Run } from './admin-context.ts';
import { shopId } from './arguments.ts';

interface SandboxOptions {
  readonly shop: bigint;
  readonly on?: true;
  readonly off?: true;
}

/** `shop sandbox`: shows or sets whether a shop is a sandbox, whose returns are processed without moving money. */
export function sandboxCommand(run: Run, print: Print): Command {
  return new Command('sandbox')
    .description(
      'show or set whether a shop is a sandbox, whose returns are processed without moving money',
    )
    .requiredOption('--shop <id>', 'the shop', shopId)
    .option(
      '--on',
      'make it a sandbox: production processes its returns with the embedded commerce provider',
    )
    .option('--off', 'make it a live shop')
    .action(({ shop, on, off }: SandboxOptions, command: Command) => {
      if (on && off) command.error('error: --on and --off exclude each other');
      return run(async ({ pool, services, by }) => {
        await requireShop(pool, shop);
        const call = { shopId: shop, actor: by.actor };
        if (!on && !off) {
          const { settings } = await services.returns.getSettings(call);
          print(settings?.sandbox ? 'on' : 'off');
          return;
        }
        const sandbox = on === true;
        await services.returns.updateSettings({ ...call, settings: { sandbox } });
        const [subject, action, detail] = [`${shop}`, 'shop.sandbox.set', { sandbox }];
        await recordAudit(pool, { shopId: shop, by, action, subject, detail });
        print(`shop ${shop} is ${sandbox ? 'a sandbox' : 'live'}`);
      });
    });
}
