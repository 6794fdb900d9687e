import { Command } from 'commander';
import type pg from 'pg';
import { printable } from '../../services/platform/values/text.ts';
import { KNOWN_CLIENTS } from '../oauth/clients/known-clients.ts';
import { listOAuthKeys, rotateOAuthKey } from '../oauth/tokens/keys.ts';
import { alikeText, type LoggedEntry, listAudit } from '../tenancy/audit-list.ts';
import { type ActiveGrant, listGrants, revokeGrant } from '../tenancy/grants.ts';
import { CLIENT_ID_MAX, installApp, listApps, removeApp } from '../tenancy/installations.ts';
import { addMember, endMemberAccess, listMembers, removeMember } from '../tenancy/members.ts';
import { ROLES, type Role } from '../tenancy/permissions.ts';
import { requireShop } from '../tenancy/shops.ts';
import { unlinkAccount } from '../tenancy/sign-in-accounts.ts';
import { parseEmail } from '../tenancy/users.ts';
import type { Print, Run } from './admin-context.ts';
import { entryId, pageSize, role, type ShopOption, shopId, time } from './arguments.ts';

const NAME_MAX = 200;

/** `member …`: the members of a shop. */
export function memberCommands(run: Run, print: Print): Command {
  const member = new Command('member').description(
    'add, remove, unlink or list members of a shop, or end their access',
  );
  member
    .command('add')
    .description('add a member, or change the role of a member')
    .requiredOption('--shop <id>', 'the shop', shopId)
    .requiredOption('--email <email>', 'e-mail address of the user')
    .requiredOption('--role <role>', `one of ${ROLES.join(', ')}`, role)
    .option('--name <name>', 'name of the user')
    .action((o: ShopOption & { email: string; role: Role; name?: string }) =>
      run(async ({ pool, by }) => {
        const { shop, ...user } = o;
        const added = await addMember(pool, { ...user, shopId: shop, by });
        print(`user ${added.userId} is ${added.role} of shop ${added.shopId}`);
      }),
    );
  member
    .command('remove')
    .description('end a membership')
    .requiredOption('--shop <id>', 'the shop', shopId)
    .requiredOption('--email <email>', 'e-mail address of the user')
    .action((o: ShopOption & { email: string }) =>
      run(async ({ pool, by }) => {
        const keys = await keysOf(pool, o);
        await removeMember(pool, { shopId: o.shop, email: o.email, by });
        print(`removed${keys}`);
      }),
    );
  member
    .command('end-access')
    .description(
      'end the sessions, assistants and apps of a member, who must sign in again: for a lost device or a stolen session',
    )
    .requiredOption('--shop <id>', 'the shop', shopId)
    .requiredOption('--email <email>', 'e-mail address of the user')
    .action((o: ShopOption & { email: string }) =>
      run(async ({ pool, by }) => {
        await endMemberAccess(pool, { shopId: o.shop, email: o.email, by });
        print(`access ended${await keysOf(pool, o)}`);
      }),
    );
  member
    .command('unlink')
    .description(
      'remove the link to the identity-provider account of a member, and disconnect the assistants of the member; the next account that proves the address is linked',
    )
    .requiredOption('--shop <id>', 'the shop', shopId)
    .requiredOption('--email <email>', 'e-mail address of the user')
    .action((o: ShopOption & { email: string }) =>
      run(async ({ pool, by }) => {
        await unlinkAccount(pool, { shopId: o.shop, email: o.email, by });
        print('unlinked');
      }),
    );
  member
    .command('list')
    .description(
      'list the members, oldest first: user id, role, e-mail address, time of joining, name',
    )
    .requiredOption('--shop <id>', 'the shop', shopId)
    .action(({ shop }: ShopOption) =>
      run(async ({ pool }) => {
        await requireShop(pool, shop);
        for (const { userId, role, email, createdAt, ...user } of await listMembers(pool, shop)) {
          const name = user.name === null ? '-' : printable(user.name, NAME_MAX);
          print(`${userId}  ${role}  ${email}  since ${createdAt.toISOString()}  ${name}`);
        }
      }),
    );
  return member;
}

/** Names the API keys that a member made, because they stay valid. */
async function keysOf(pool: pg.Pool, o: { shop: bigint; email: string }): Promise<string> {
  const email = parseEmail(o.email);
  const member = (await listMembers(pool, o.shop)).find((one) => one.email === email);
  if (!member || member.keys.length === 0) return '';
  const keys = member.keys.map((key) => printable(key, NAME_MAX)).join(', ');
  return `; API keys of this person stay valid: ${keys}`;
}

interface AppOptions extends ShopOption {
  readonly issuer: string;
  readonly clientId: string;
}

/** `app …`: the partners' apps that a shop has installed. */
export function appCommands(run: Run, print: Print): Command {
  const app = new Command('app').description(
    "install, remove or list the partners' apps of a shop; merchants do it themselves for apps of `partner-app`",
  );
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
        for (const { clientId, issuer, createdAt } of await listApps(pool, { shopId: shop })) {
          const id = printable(clientId, CLIENT_ID_MAX);
          print(`${id}  ${issuer}  since ${createdAt.toISOString()}`);
        }
      }),
    );
  return app;
}

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
        for (const grant of await listGrants(pool, { shopId: o.shop })) print(grantLine(grant));
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

function grantLine(grant: ActiveGrant): string {
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

/** `oauth-key …`: the keys that sign assistants' access tokens. */
export function oauthKeyCommands(run: Run, print: Print): Command {
  const key = new Command('oauth-key').description(
    "the keys that sign access tokens of assistants and of partners' apps",
  );
  key
    .command('rotate')
    .description('sign with new keys from now on; all users stay signed in')
    .action(() =>
      run(async ({ pool }) => {
        await rotateOAuthKey(pool);
        print(
          'the gateway creates the new keys with the next tokens; the old ones verify tokens for 13 hours',
        );
      }),
    );
  key
    .command('list')
    .description('list the keys that sign tokens or still verify them')
    .action(() =>
      run(async ({ pool }) => {
        for (const { kid, isForPartners, createdAt, replacedAt } of await listOAuthKeys(pool)) {
          const whose = isForPartners ? 'partners' : 'assistants';
          const state = replacedAt ? `replaced ${replacedAt.toISOString()}` : 'signs';
          print(`${kid}  for ${whose}  made ${createdAt.toISOString()}  ${state}`);
        }
      }),
    );
  return key;
}

interface ListOptions {
  readonly shop: bigint;
  readonly since?: Date;
  readonly until?: Date;
  readonly actor?: string;
  readonly action?: string;
  readonly limit: number;
  readonly cursor?: bigint;
}

const DEFAULT_LIMIT = 100;
/** Longer names and subjects are cut. Characters. */
const SUBJECT_MAX = 500;
const CHANGES_MAX = 1_000;

/** `audit list`: the audit log of a shop. */
export function auditCommands(run: Run, print: Print): Command {
  const audit = new Command('audit').description("read a shop's audit log");
  audit
    .command('list')
    .description(
      'list the entries, newest first, one per line: time, actor, address, request id, action, object, outcome; `-` when absent',
    )
    .requiredOption('--shop <id>', 'the shop', shopId)
    .option('--since <time>', 'from this time on, such as 2027-07-01T00:00:00Z', time)
    .option('--until <time>', 'before this time', time)
    .option('--actor <id>', 'id of a key, a client or a user')
    .option('--action <name>', 'such as rest.createCart, or rest.* for all that begin with rest.')
    .option('--limit <count>', 'maximum number of entries, 1 to 10000', pageSize, DEFAULT_LIMIT)
    .option('--cursor <id>', 'continue where an earlier list ended', entryId)
    .action(({ shop, cursor, ...filter }: ListOptions) =>
      run(async ({ pool }) => {
        await requireShop(pool, shop);
        const page = { ...filter, ...(cursor !== undefined && { before: cursor }) };
        const found = await listAudit(pool, { ...page, shopId: shop, limit: filter.limit + 1 });
        const shown = found.slice(0, filter.limit);
        for (const entry of shown) print(lineOf(entry));
        if (found.length > shown.length) print(`# more: --cursor ${shown.at(-1)?.id}`);
      }),
    );
  return audit;
}

/** One line of output. Names and ids come from callers, so control characters in them are replaced. */
function lineOf(entry: LoggedEntry): string {
  const { at, actorKind, actorId, actorName, source, requestId, action, subject, detail } = entry;
  const name = actorName === '' ? '' : ` ${JSON.stringify(printable(actorName, NAME_MAX))}`;
  const { phase, changes } = detail;
  return [
    at.toISOString(),
    `${actorKind} ${actorId}${name}`,
    source ?? '-',
    requestId ?? '-',
    action,
    printable(subject, SUBJECT_MAX) || '-',
    typeof phase === 'string' ? phase : '-',
    ...alikeText(entry),
    ...(changes === undefined ? [] : [printable(JSON.stringify(changes), CHANGES_MAX)]),
  ].join('  ');
}
