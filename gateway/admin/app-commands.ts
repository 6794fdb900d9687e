import { Command } from 'commander';
import { printable } from '../../services/platform/text.ts';
import { CLIENT_ID_MAX, installApp, listApps, removeApp } from '../tenancy/installations.ts';
import { requireShop } from '../tenancy/shops.ts';
import type { Print, Run } from './admin-context.ts';
import { type ShopOption, shopId } from './arguments.ts';

interface AppOptions extends ShopOption {
  readonly issuer: string;
  readonly clientId: string;
}

/** `app …`: the partners' apps that a shop has installed. */
export function appCommands(run: Run, print: Print): Command {
  const app = new Command('app').description("install, remove or list partners' apps");
  const options = (command: Command): Command =>
    command
      .requiredOption('--shop <id>', 'the shop', shopId)
      .requiredOption('--issuer <url>', "issuer of the app's tokens")
      .requiredOption('--client-id <id>', "the app's client id");
  options(app.command('install').description('accept the tokens of an app for a shop')).action(
    ({ shop, issuer, clientId }: AppOptions) =>
      run(async ({ pool, by }) => {
        await installApp(pool, { shopId: shop, issuer, clientId, by });
        print('installed');
      }),
  );
  options(app.command('remove').description('end an installation')).action(
    ({ shop, issuer, clientId }: AppOptions) =>
      run(async ({ pool, by }) => {
        await removeApp(pool, { shopId: shop, issuer, clientId, by });
        print('removed');
      }),
  );
  app
    .command('list')
    .description('list the installed apps, oldest first: client id, issuer, time of installation')
    .requiredOption('--shop <id>', 'the shop', shopId)
    .action(({ shop }: ShopOption) =>
      run(async ({ pool }) => {
        await requireShop(pool, shop);
        for (const { clientId, issuer, createdAt } of await listApps(pool, shop)) {
          const id = printable(clientId, CLIENT_ID_MAX);
          print(`${id}  ${issuer}  since ${createdAt.toISOString()}`);
        }
      }),
    );
  return app;
}
