import { Command } from 'commander';
import { printable } from '../../services/contract/printable.ts';
import { addMember, listMembers, removeMember } from '../tenancy/members.ts';
import { ROLES, type Role } from '../tenancy/permissions.ts';
import { requireShop } from '../tenancy/shops.ts';
import { unlinkAccount } from '../tenancy/sign-in-accounts.ts';
import type { Print, Run } from './admin-context.ts';
import { role, shopId } from './arguments.ts';

interface ShopOption {
  readonly shop: bigint;
}

const NAME_MAX = 200;

/** `member …`: the members of a shop. */
export function memberCommands(run: Run, print: Print): Command {
  const member = new Command('member').description('add, remove, unlink or list members of a shop');
  member
    .command('add')
    .description('add a member, or give one another role')
    .requiredOption('--shop <id>', 'the shop', shopId)
    .requiredOption('--email <email>', 'address of the person')
    .requiredOption('--role <role>', `one of ${ROLES.join(', ')}`, role)
    .option('--name <name>', 'name of the person')
    .action((o: ShopOption & { email: string; role: Role; name?: string }) =>
      run(async ({ pool, by }) => {
        const { shop, ...person } = o;
        const made = await addMember(pool, { ...person, shopId: shop, by });
        print(`user ${made.userId} is ${made.role} of shop ${made.shopId}`);
      }),
    );
  member
    .command('remove')
    .description('end a membership')
    .requiredOption('--shop <id>', 'the shop', shopId)
    .requiredOption('--email <email>', 'address of the person')
    .action((o: ShopOption & { email: string }) =>
      run(async ({ pool, by }) => {
        await removeMember(pool, { shopId: o.shop, email: o.email, by });
        print('removed');
      }),
    );
  member
    .command('unlink')
    .description(
      'forget which account of the identity provider a member signs in with, and disconnect the member; the next account that proves the address is linked',
    )
    .requiredOption('--shop <id>', 'the shop', shopId)
    .requiredOption('--email <email>', 'address of the person')
    .action((o: ShopOption & { email: string }) =>
      run(async ({ pool, by }) => {
        await unlinkAccount(pool, { shopId: o.shop, email: o.email, by });
        print('unlinked');
      }),
    );
  member
    .command('list')
    .description('list the members, longest first: number, role, address, since when, name')
    .requiredOption('--shop <id>', 'the shop', shopId)
    .action(({ shop }: ShopOption) =>
      run(async ({ pool }) => {
        await requireShop(pool, shop);
        for (const one of await listMembers(pool, shop)) {
          const name = one.name === null ? '-' : printable(one.name, NAME_MAX);
          const since = one.createdAt.toISOString();
          print(`${one.userId}  ${one.role}  ${one.email}  since ${since}  ${name}`);
        }
      }),
    );
  return member;
}
