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
    .description('sign with a new key from now on; all users stay signed in')
    .action(() =>
      run(async ({ pool }) => {
        await rotateOAuthKey(pool);
        print(
          'the gateway creates the new key with the next token; the old key verifies tokens for 13 hours',
        );
      }),
    );
  key
    .command('list')
    .description('list the keys that sign tokens or still verify them')
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
