import { createHash } from 'node:crypto';
import { Command } from 'commander';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import {
  type Destination,
  DestinationTypeSchema,
} from '../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { DESTINATION_TYPES } from '../../services/contract/vocabulary.ts';
import { enumText } from '../../services/platform/enum-text.ts';
import { reasonOf } from '../../services/platform/errors.ts';
import { normalForm } from '../../services/platform/text.ts';
import { sent } from '../actions/context.ts';
import { recordAudit } from '../tenancy/audit.ts';
import { requireShop } from '../tenancy/shops.ts';
import type { Print, Run } from './admin-context.ts';
import { type DestinationTypeName, destinationType, type ShopOption, shopId } from './arguments.ts';

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
export function destinationCommands(run: Run, print: Print): Command {
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
