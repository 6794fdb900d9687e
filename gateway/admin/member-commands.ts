import { Command } from 'commander';
import { printable } from '../../services/platform/text.ts';
import { addMember, listMembers, removeMember } from '../tenancy/members.ts';
import { ROLES, type Role } from '../tenancy/permissions.ts';
import { requireShop } from '../tenancy/shops.ts';
import { unlinkAccount } from '../tenancy/sign-in-accounts.ts';
import type { Print, Run } from './admin-context.ts';
import { role, type ShopOption, shopId } from './arguments.ts';

const NAME_MAX = 200;

/** `member …`: the members of a shop. */
export function memberCommands(run: Run, print: Print): Command {
  const member = new Command('member').description('add, remove, unlink or list members of a shop');
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
        await removeMember(pool, { shopId: o.shop, email: o.email, by });
        print('removed');
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
