import { Command } from 'commander';
import { switchEnvironment } from '../tenancy/environment.ts';
import { requireShop } from '../tenancy/shops.ts';
import type { AdminContext, Print, Run } from './admin-context.ts';
import { shopId } from './arguments.ts';

interface SandboxOptions {
  readonly shop: bigint;
  readonly on?: true;
  readonly off?: true;
  readonly force?: true;
}

/** `shop sandbox`: shows or sets whether a shop is a sandbox, whose returns are processed without moving money. */
export function sandboxCommand(run: Run, print: Print): Command {
  return new Command('sandbox')
    .description(
      'show or set whether a shop is a sandbox, whose returns are processed without moving money; may be repeated',
    )
    .requiredOption('--shop <id>', 'the shop', shopId)
    .option(
      '--on',
      'make it a sandbox: production processes its returns with the embedded commerce provider, its keys begin with rms_test_, and responses and webhooks say that it is a sandbox',
    )
    .option('--off', 'make it a live shop; takes some seconds')
    .option('--force', 'also if active keys stop working: a key works in one kind of shop')
    .action((o: SandboxOptions, command: Command) => {
      if (o.on && o.off) command.error('error: --on and --off exclude each other');
      return run(async (context) => {
        if (!o.on && !o.off) return print(await stateOf(context, o.shop));
        const { pool, services, by, effectiveAfterMs } = context;
        const sandbox = o.on === true;
        const force = o.force === true;
        const wanted = { shopId: o.shop, sandbox, force, by, effectiveAfterMs };
        const rejectedKeys = await switchEnvironment(pool, services, wanted);
        print(`shop ${o.shop} is ${sandbox ? 'a sandbox' : 'live'}`);
        if (rejectedKeys > 0) {
          const now = sandbox ? 'sandbox' : 'live';
          const before = sandbox ? 'live' : 'sandbox';
          print(
            `${rejectedKeys} active keys of the ${before} shop do not work now; \`key create\` makes keys of the ${now} shop`,
          );
        }
      });
    });
}

/** `on` or `off`. Says so when an earlier switch was interrupted. */
async function stateOf({ pool, services, by }: AdminContext, shopId: bigint): Promise<string> {
  const shop = await requireShop(pool, shopId);
  const { settings } = await services.returns.getSettings({ shopId, actor: by.actor });
  const movesNoMoney = settings?.sandbox ?? false;
  if (movesNoMoney === shop.sandbox) return shop.sandbox ? 'on' : 'off';
  const state = movesNoMoney
    ? 'moves no money, but its keys and responses are those of a live shop'
    : 'moves money, but its keys and responses are those of a sandbox';
  return `incomplete: it ${state}. Run \`shop sandbox\` again with --on or --off`;
}
