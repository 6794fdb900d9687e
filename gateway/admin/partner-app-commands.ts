import { Command, InvalidArgumentError } from 'commander';
import { PARTNER_SCOPES } from '../../services/contract/operations.ts';
import type { Scope } from '../../services/contract/scopes.ts';
import { printable } from '../../services/platform/values/text.ts';
import { partnerIssuer } from '../oauth/partners/address.ts';
import {
  createPartnerApp,
  DEFAULT_OVERLAP_HOURS,
  listPartnerApps,
  removePartnerApp,
  rotatePartnerSecret,
} from '../tenancy/partner-apps.ts';
import { isPartnerScope } from '../tenancy/partner-scopes.ts';
import type { Print, Run } from './admin-context.ts';
import { overlapHours } from './arguments.ts';

interface CreateOptions {
  readonly name: string;
  readonly redirectUri: readonly string[];
  readonly scopes: readonly Scope[];
  readonly website?: string;
  readonly logo?: string;
  readonly public?: true;
}

/** `partner-app …`: the apps that get tokens at our own authorization server. */
export function partnerAppCommands(run: Run, print: Print): Command {
  const app = new Command('partner-app').description(
    "register partners' apps, rotate their secrets, list or remove them",
  );
  createCommand(app, run, print);
  app
    .command('list')
    .description('list the apps: client id, state, number of shops, scopes, redirect URIs, name')
    .action(() =>
      run(async ({ pool }) => {
        for (const one of await listPartnerApps(pool)) {
          const state = one.removedAt ? 'removed' : one.isPublic ? 'public' : 'active';
          const parts = [one.scopes.join(','), one.redirectUris.join(','), printable(one.name)];
          print(`${one.clientId}  ${state}  ${one.shops} shops  ${parts.join('  ')}`);
        }
      }),
    );
  app
    .command('rotate')
    .description('give an app a new secret, which is shown only now')
    .requiredOption('--client-id <id>', "the app's client id")
    .option(
      '--overlap-hours <hours>',
      'how long the former secret works, 0 to 168',
      overlapHours,
      DEFAULT_OVERLAP_HOURS,
    )
    .action((o: { readonly clientId: string; readonly overlapHours: number }) =>
      run(async ({ pool }) => {
        print(`client secret: ${await rotatePartnerSecret(pool, o)}`);
        print(`the former secret works for ${o.overlapHours} hours`);
      }),
    );
  app
    .command('remove')
    .description('end an app in every shop; its tokens and sign-ins are rejected within 5 seconds')
    .requiredOption('--client-id <id>', "the app's client id")
    .action(({ clientId }: { readonly clientId: string }) =>
      run(async ({ pool, publicUrl, by }) => {
        const issuer = partnerIssuer(publicUrl);
        const shops = await removePartnerApp(pool, { clientId, issuer, by });
        print(`removed, from ${shops} shops`);
      }),
    );
  return app;
}

function createCommand(app: Command, run: Run, print: Print): void {
  app
    .command('create')
    .description('register an app; its secret is shown only now')
    .requiredOption('--name <name>', 'name that merchants see')
    .requiredOption(
      '--redirect-uri <url>',
      'where the browser returns to, exactly as the app sends it; may be repeated',
      (uri: string, former: readonly string[] | undefined) => [...(former ?? []), uri],
    )
    .requiredOption('--scopes <list>', `separated by commas: ${PARTNER_SCOPES.join(', ')}`, scopes)
    .option('--website <url>', 'https address of a page about the app')
    .option('--logo <url>', 'https address of a picture, for the consent page')
    .option('--public', 'an app without a secret, such as a page; it gets no refresh tokens')
    .action((o: CreateOptions) =>
      run(async ({ pool, publicUrl }) => {
        const issuer = partnerIssuer(publicUrl);
        const { public: isPublic, redirectUri: redirectUris, ...rest } = o;
        const made = await createPartnerApp(pool, { ...rest, redirectUris, isPublic });
        print(`client id: ${made.clientId}`);
        if (made.secret !== undefined) print(`client secret: ${made.secret}`);
        print(`authorization server: ${issuer}`);
      }),
    );
}

function scopes(text: string): Scope[] {
  const names = text.split(',').map((name) => name.trim());
  const known = names.filter(isPartnerScope);
  if (known.length === names.length) return known;
  throw new InvalidArgumentError(`must be of ${PARTNER_SCOPES.join(', ')}`);
}
