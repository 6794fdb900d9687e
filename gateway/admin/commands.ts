import { Command } from 'commander';
import { SCOPES, type Scope } from '../../services/contract/scopes.ts';
import { newestActive } from '../../services/contract/versions.ts';
import { printable } from '../../services/platform/text.ts';
import { type ApiKey, createApiKey, listApiKeys, revokeApiKey } from '../tenancy/api-keys.ts';
import { createShop, listShops, requireShop, type Shop } from '../tenancy/shops.ts';
import type { Open, Print, Run } from './admin-context.ts';
import { appCommands } from './app-commands.ts';
import { perMinute, type ShopOption, scopes, shopId, time } from './arguments.ts';
import { auditCommands } from './audit-commands.ts';
import { commerceCommands } from './commerce-commands.ts';
import { destinationCommands } from './destination-commands.ts';
import { grantCommands } from './grant-commands.ts';
import { memberCommands } from './member-commands.ts';
import { oauthKeyCommands } from './oauth-key-commands.ts';
import { payloadVersionCommands } from './payload-version-commands.ts';
import { reconcileCommand } from './reconcile-command.ts';
import { restockCommand } from './restock-command.ts';
import { sandboxCommand } from './sandbox-command.ts';

/**
 * `npm run admin -- …`: the commands of operators. Texts in a line come from anywhere, so their control characters, which
 * would change the terminal, are replaced.
 */
export function adminProgram(open: Open, write: Print): Command {
  const print: Print = (line) => write(printable(line));
  const program = new Command('admin')
    .description(
      'Shops, their destinations, commerce providers, members, API keys, payload versions, installed apps, connected assistants and audit log',
    )
    .option('--stack <file>', 'the stack file, which selects a local stack');
  const run: Run = (work) => open(work, program.opts<{ stack?: string }>().stack);
  return program
    .addCommand(shopCommands(run, print))
    .addCommand(payloadVersionCommands(run, print))
    .addCommand(destinationCommands(run, print))
    .addCommand(commerceCommands(run, print))
    .addCommand(reconcileCommand(run, print))
    .addCommand(keyCommands(run, print))
    .addCommand(memberCommands(run, print))
    .addCommand(appCommands(run, print))
    .addCommand(grantCommands(run, print))
    .addCommand(auditCommands(run, print))
    .addCommand(oauthKeyCommands(run, print));
}

function shopCommands(run: Run, print: Print): Command {
  const shop = new Command('shop').description(
    'create or list shops, and set how they are processed',
  );
  shop
    .command('create')
    .description('create a shop with its owner; may be repeated')
    .requiredOption('--name <name>', 'name of the shop')
    .requiredOption('--currency <code>', 'ISO 4217 code; cannot be changed later')
    .requiredOption('--owner-email <email>', 'e-mail address of the first owner')
    .option(
      '--sandbox',
      'sandbox shop: processed with the embedded commerce provider, without moving money; its keys begin with rms_test_',
    )
    .action((o: { name: string; currency: string; ownerEmail: string; sandbox?: true }) =>
      run(async ({ pool, services, by }) => {
        const payloadVersion = newestActive(new Date());
        const created = await createShop(pool, services, { ...o, payloadVersion, by });
        print(`shop ${created.id} "${created.name}" (${created.currency})`);
      }),
    );
  shop
    .command('list')
    .description('list all shops')
    .action(() =>
      run(async ({ pool }) => {
        for (const { id, name, currency, sandbox, configuredAt } of await listShops(pool)) {
          const kind = sandbox ? '  sandbox' : '';
          const state = configuredAt ? '' : '  incomplete: run `shop create` again';
          print(`${id}  ${currency}  ${name}${kind}${state}`);
        }
      }),
    );
  return shop.addCommand(sandboxCommand(run, print)).addCommand(restockCommand(run, print));
}

interface KeyOptions extends ShopOption {
  readonly scopes: Scope[];
  readonly description: string;
  readonly expires?: Date;
  readonly perMinute?: number;
}

function keyCommands(run: Run, print: Print): Command {
  const key = new Command('key').description('create, revoke or list API keys');
  key
    .command('create')
    .description('create an API key; its text is shown only now')
    .requiredOption('--shop <id>', 'the shop', shopId)
    .requiredOption('--scopes <list>', `separated by commas: ${SCOPES.join(', ')}`, scopes)
    .option('--description <text>', 'purpose of the key', '')
    .option('--expires <time>', 'when the key expires, such as 2027-07-01T00:00:00Z', time)
    .option('--per-minute <count>', 'REST requests per minute, instead of the default', perMinute)
    .action((o: KeyOptions) =>
      run(async ({ pool, by }) => {
        const { text } = await createApiKey(pool, {
          shopId: o.shop,
          scopes: o.scopes,
          description: o.description,
          by,
          ...(o.expires && { expiresAt: o.expires }),
          ...(o.perMinute !== undefined && { restPerMinute: o.perMinute }),
        });
        print(text);
      }),
    );
  key
    .command('revoke')
    .description('revoke an API key; all replicas reject it within 5 seconds')
    .requiredOption('--shop <id>', 'the shop', shopId)
    .argument('<key>', 'id of the key, or the whole key')
    .action((keyId: string, o: ShopOption) =>
      run(async ({ pool, by }) => {
        await revokeApiKey(pool, { shopId: o.shop, keyId, by });
        print('revoked');
      }),
    );
  key
    .command('list')
    .description("list a shop's API keys")
    .requiredOption('--shop <id>', 'the shop', shopId)
    .action((o: ShopOption) =>
      run(async ({ pool }) => {
        const shop = await requireShop(pool, o.shop);
        for (const key of await listApiKeys(pool, o.shop)) {
          print(
            `${key.keyId}  ${stateOf(key, shop)}  ${key.scopes.join(',') || '-'}  ${key.description}`,
          );
        }
      }),
    );
  return key;
}

function stateOf(key: ApiKey, shop: Shop): string {
  if (key.revokedAt) return 'revoked';
  if (key.hasExpired) return 'expired';
  if (key.sandbox === shop.sandbox) return 'active';
  return key.sandbox ? 'for sandbox only' : 'for live only';
}
