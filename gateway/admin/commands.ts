import { createHash } from 'node:crypto';
import { Command, Option } from 'commander';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import {
  type Destination,
  DestinationTypeSchema,
} from '../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { RestockModeSchema } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { SCOPE_RULES, SCOPES, type Scope } from '../../services/contract/scopes.ts';
import { newestActive, RELEASED } from '../../services/contract/versions.ts';
import { DESTINATION_TYPES } from '../../services/contract/vocabulary.ts';
import { enumText } from '../../services/platform/values/enum-text.ts';
import { reasonOf } from '../../services/platform/values/errors.ts';
import { normalForm, printable } from '../../services/platform/values/text.ts';
import { sent } from '../actions/context.ts';
import { type ApiKey, createApiKey, listApiKeys, revokeApiKey } from '../tenancy/api-keys.ts';
import { recordAudit } from '../tenancy/audit.ts';
import { switchEnvironment } from '../tenancy/environment.ts';
import { createShop, listShops, requireShop, type Shop } from '../tenancy/shops.ts';
import {
  appCommands,
  auditCommands,
  grantCommands,
  memberCommands,
  oauthKeyCommands,
} from './access-commands.ts';
import type { AdminContext, Open, Print, Run } from './admin-context.ts';
import {
  type DestinationTypeName,
  destinationType,
  expiry,
  perMinute,
  releasedVersion,
  type ShopOption,
  scopes,
  shopId,
} from './arguments.ts';
import { commerceCommands, reconcileCommand } from './commerce-commands.ts';
import { partnerAppCommands } from './partner-app-commands.ts';
import { webhookCommands } from './webhook-commands.ts';

/**
 * `npm run admin -- …`: the commands of operators. Texts in a line come from anywhere, so their control characters, which
 * would change the terminal, are replaced.
 */
export function adminProgram(open: Open, write: Print): Command {
  const print: Print = (line) => write(printable(line));
  const program = new Command('admin')
    .description(
      "Shops, their destinations, commerce providers, members, API keys, webhooks, payload versions, partners' apps, connected assistants and audit log",
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
    .addCommand(webhookCommands(run, print))
    .addCommand(memberCommands(run, print))
    .addCommand(appCommands(run, print))
    .addCommand(partnerAppCommands(run, print))
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

/** The scopes with their sentences. */
function scopeHelp(): string {
  return `\nScopes:\n${SCOPES.map((scope) => `  ${scope}: ${SCOPE_RULES[scope].text}`).join('\n')}`;
}

function keyCommands(run: Run, print: Print): Command {
  const key = new Command('key').description('create, revoke or list API keys');
  key
    .command('create')
    .description('create an API key; its text is shown only now')
    .requiredOption('--shop <id>', 'the shop', shopId)
    .requiredOption('--scopes <list>', `separated by commas: ${SCOPES.join(', ')}`, scopes)
    .addHelpText('after', scopeHelp())
    .option('--description <text>', 'purpose of the key', '')
    .option('--expires <time>', 'when the key expires, such as 2027-07-01T00:00:00Z', expiry)
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
  if (key.isWaiting) return 'waits for an owner';
  if (key.sandbox === shop.sandbox) return 'active';
  return key.sandbox ? 'for sandbox only' : 'for live only';
}

interface SandboxOptions {
  readonly shop: bigint;
  readonly on?: true;
  readonly off?: true;
  readonly force?: true;
}

/** `shop sandbox`: shows or sets whether a shop is a sandbox, whose returns are processed without moving money. */
function sandboxCommand(run: Run, print: Print): Command {
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
        if (!o.on && !o.off) return print(await sandboxState(context, o.shop));
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
async function sandboxState({ pool, services, by }: AdminContext, shopId: bigint): Promise<string> {
  const shop = await requireShop(pool, shopId);
  const { settings } = await services.returns.getSettings({ shopId, actor: by.actor });
  const movesNoMoney = settings?.sandbox ?? false;
  if (movesNoMoney === shop.sandbox) return shop.sandbox ? 'on' : 'off';
  const state = movesNoMoney
    ? 'moves no money, but its keys and responses are those of a live shop'
    : 'moves money, but its keys and responses are those of a sandbox';
  return `incomplete: it ${state}. Run \`shop sandbox\` again with --on or --off`;
}

const MODE = enumText(RestockModeSchema);

interface RestockOptions {
  readonly shop: bigint;
  readonly mode?: string;
}

/** `shop restock`: shows or sets how the goods of a shop return to stock when a return is processed. */
function restockCommand(run: Run, print: Print): Command {
  return new Command('restock')
    .description('show or set how goods return to stock when a return is processed')
    .requiredOption('--shop <id>', 'the shop', shopId)
    .addOption(
      new Option(
        '--mode <mode>',
        'off; webhook: restock.requested is sent; provider: the commerce provider is asked',
      ).choices(['off', 'webhook', 'provider']),
    )
    .action(({ shop, mode }: RestockOptions) =>
      run(async ({ pool, services, by }) => {
        await requireShop(pool, shop);
        const call = { shopId: shop, actor: by.actor };
        if (mode === undefined) {
          const { settings } = await services.returns.getSettings(call);
          print(MODE.toText(sent(settings, 'settings').restockMode));
          return;
        }
        const settings = { restockMode: MODE.fromText(mode) };
        await services.returns.updateSettings({ ...call, settings });
        const [subject, action, detail] = [`${shop}`, 'shop.restock.set', { mode }];
        await recordAudit(pool, { shopId: shop, by, action, subject, detail });
        print(`shop ${shop} restocks: ${mode}`);
      }),
    );
}

/** `payload-version …`: the API version of a shop's webhook payloads. */
function payloadVersionCommands(run: Run, print: Print): Command {
  const version = new Command('payload-version').description(
    "show or set the version of a shop's webhook payloads",
  );
  version
    .command('show')
    .description('show the version of payloads today')
    .requiredOption('--shop <id>', 'the shop', shopId)
    .action(({ shop }: ShopOption) =>
      run(async ({ pool, services, by: { actor } }) => {
        await requireShop(pool, shop);
        print((await services.webhooks.getPayloadVersion({ shopId: shop, actor })).version);
      }),
    );
  version
    .command('set')
    .description('set the version for payloads of later events, for all webhooks of the shop')
    .requiredOption('--shop <id>', 'the shop', shopId)
    .argument('<version>', `a supported version, of ${RELEASED.join(', ')}`, releasedVersion)
    .action((newVersion: string, { shop }: ShopOption) =>
      run(async ({ pool, services, by }) => {
        await requireShop(pool, shop);
        const { actor } = by;
        await services.webhooks.setPayloadVersion({ shopId: shop, actor, version: newVersion });
        const [subject, action, detail] = [
          `${shop}`,
          'payload_version.set',
          { version: newVersion },
        ];
        await recordAudit(pool, { shopId: shop, by, action, subject, detail });
        print(`shop ${shop}: payloads of events from now on are shaped for ${newVersion}`);
      }),
    );
  return version;
}

const TYPE = enumText(DestinationTypeSchema);

interface CreateOptions extends ShopOption {
  readonly name: string;
  readonly type: DestinationTypeName;
  readonly disabled?: true;
  readonly recipient?: string;
  readonly company?: string;
  readonly address1?: string;
  readonly address2?: string;
  readonly city?: string;
  readonly state?: string;
  readonly zip?: string;
  readonly countryCode?: string;
  readonly phone?: string;
}

/** `destination …`: the places that returned goods are sent to. Partners can change destinations, but not create them. */
function destinationCommands(run: Run, print: Print): Command {
  const destination = new Command('destination').description('create or list destinations');
  destination
    .command('create')
    .description(
      'create a destination; may be repeated: a shop gets only one destination of a name',
    )
    .requiredOption('--shop <id>', 'the shop', shopId)
    .requiredOption('--name <name>', 'name of the destination, such as "Main warehouse"')
    .option(
      '--type <type>',
      `one of ${DESTINATION_TYPES.join(', ')}`,
      destinationType,
      DESTINATION_TYPES[0],
    )
    .option('--disabled', 'no new return may be sent to it')
    .option(
      '--recipient <name>',
      'name in the address; the options below are parts of the address too',
    )
    .option('--company <name>', 'company')
    .option('--address1 <text>', 'first line')
    .option('--address2 <text>', 'second line')
    .option('--city <city>', 'city')
    .option('--state <state>', 'state or province')
    .option('--zip <code>', 'postal code')
    .option(
      '--country-code <code>',
      'ISO 3166 code of two letters, from which the name of the country follows',
    )
    .option('--phone <number>', 'phone number; stored and never shown')
    .action((o: CreateOptions) =>
      run(async ({ pool, services, by }) => {
        await requireShop(pool, o.shop);
        const request = { shopId: o.shop, actor: by.actor, ...requestOf(o) };
        const created = await services.destinations.createDestination(request).catch((error) => {
          throw reasonOf(error) === ErrorReason.IDEMPOTENCY_CONFLICT ? nameTaken(o) : error;
        });
        const destination = sent(created.destination, 'destination');
        const { id, name } = destination;
        const entry = { subject: `${id}`, action: 'destination.created', detail: { name } };
        await recordAudit(pool, { shopId: o.shop, by, ...entry });
        print(lineOf(destination));
      }),
    );
  destination
    .command('list')
    .description("list a shop's destinations")
    .requiredOption('--shop <id>', 'the shop', shopId)
    .action(({ shop }: ShopOption) =>
      run(async ({ pool, services, by: { actor } }) => {
        await requireShop(pool, shop);
        const { destinations } = await services.destinations.listDestinations({
          shopId: shop,
          actor,
        });
        for (const entry of destinations) print(lineOf(entry));
      }),
    );
  return destination;
}

function requestOf(o: CreateOptions) {
  const name = normalForm(o.name);
  return {
    idempotencyKey: `admin:${createHash('sha256').update(name).digest('hex')}`,
    name,
    type: TYPE.fromText(o.type),
    enabled: !o.disabled,
    address: {
      name: o.recipient ?? '',
      company: o.company ?? '',
      address1: o.address1 ?? '',
      address2: o.address2 ?? '',
      city: o.city ?? '',
      state: o.state ?? '',
      zip: o.zip ?? '',
      countryCode: o.countryCode ?? '',
      phone: o.phone ?? '',
    },
  };
}

function nameTaken({ shop, name }: CreateOptions): Error {
  return new Error(
    `this command created "${name}" in shop ${shop} before, with other values: use another name, or change the destination through the API`,
  );
}

/** Formats a destination, such as `destination 3 "Main warehouse" (warehouse, GB)`. */
function lineOf({ id, name, type, enabled, address }: Destination): string {
  const traits = [TYPE.toText(type), address?.countryCode, enabled ? '' : 'disabled'];
  return `destination ${id} "${name}" (${traits.filter(Boolean).join(', ')})`;
}
