import { Command } from 'commander';
import { listOAuthKeys, rotateOAuthKey } from '../oauth/keys.ts';
import type { Print, Run } from './admin-context.ts';

/** `oauth-key …`: the keys that sign assistants' access tokens. */
export function oauthKeyCommands(run: Run, print: Print): Command {
  const key = new Command('oauth-key').description(
    'the keys that sign access tokens of assistants',
  );
  key
    .command('rotate')
    .description('sign with a new key from now on; nobody is signed out')
    .action(() =>
      run(async ({ pool }) => {
        await rotateOAuthKey(pool);
        print(
          'the gateway makes the new key with the next token; the old one verifies for 13 hours',
        );
      }),
    );
  key
    .command('list')
    .description('list the keys that sign or still verify')
    .action(() =>
      run(async ({ pool }) => {
        for (const { kid, createdAt, replacedAt } of await listOAuthKeys(pool)) {
          const state = replacedAt ? `replaced ${replacedAt.toISOString()}` : 'signs';
          print(`${kid}  made ${createdAt.toISOString()}  ${state}`);
        }
      }),
    );
  return key;
}
