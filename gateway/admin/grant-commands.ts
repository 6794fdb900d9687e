import { Command } from 'commander';
import { KNOWN_CLIENTS } from '../oauth/clients/known-clients.ts';
import { type ActiveGrant, listGrants, revokeGrant } from '../tenancy/grants.ts';
import { requireShop } from '../tenancy/shops.ts';
import type { Print, Run } from './admin-context.ts';
import { shopId } from './arguments.ts';

/** `grants …`: the assistants that members have connected. */
export function grantCommands(run: Run, print: Print): Command {
  const grants = new Command('grants').description('list or revoke the connected assistants');
  grants
    .command('list')
    .description('list the connected assistants, oldest first')
    .option('--shop <id>', 'only of this shop', shopId)
    .action((o: { shop?: bigint }) =>
      run(async ({ pool }) => {
        if (o.shop !== undefined) await requireShop(pool, o.shop);
        for (const grant of await listGrants(pool, { shopId: o.shop })) print(lineOf(grant));
      }),
    );
  grants
    .command('revoke')
    .description('disconnect an assistant; its next call is rejected')
    .argument('<id>', 'id of the grant, from `grants list`')
    .action((id: string) =>
      run(async ({ pool, by }) => {
        await revokeGrant(pool, { id, by });
        print('revoked');
      }),
    );
  return grants;
}

function lineOf(grant: ActiveGrant): string {
  const used = grant.lastUsedAt ? `last used ${grant.lastUsedAt.toISOString()}` : 'never used';
  return [
    grant.id,
    nameOf(grant),
    grant.email,
    `shop ${grant.shopId} "${grant.shopName}"`,
    grant.isReadOnly ? `${grant.role}, reading only` : grant.role,
    `since ${grant.createdAt.toISOString()}`,
    used,
  ].join('  ');
}

/** Apps without a metadata document share one client id. The host of the app tells them apart. */
function nameOf({ clientId, app }: ActiveGrant): string {
  const name = KNOWN_CLIENTS.find((known) => known.clientId === clientId)?.name ?? clientId;
  return app === null ? name : `${name} (${app})`;
}
