import { randomUUID } from 'node:crypto';
import { type Timestamp, timestampDate } from '@bufbuild/protobuf/wkt';
import { Command } from 'commander';
import {
  CommerceAdapterSchema,
  type Connection,
} from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { effectView } from '../../services/contract/views/effect.ts';
import { enumText } from '../../services/platform/enum-text.ts';
import { reasonOf } from '../../services/platform/errors.ts';
import { sent } from '../actions/context.ts';
import { type AuditEntry, recordAudit } from '../tenancy/audit.ts';
import { requireShop } from '../tenancy/shops.ts';
import type { AdminContext, Print, Run } from './admin-context.ts';
import { overlapHours, returnId, type ShopOption, shopId } from './arguments.ts';
import { checkCommand } from './check-command.ts';
import { orderCommand } from './order-command.ts';
import { settleCommand } from './settle-command.ts';
import { shopifyCommands } from './shopify-commands.ts';

const ADAPTER = enumText(CommerceAdapterSchema);

/** `commerce …`: the commerce provider of a shop, which makes its exchange orders, gift cards, refunds and restocks. */
export function commerceCommands(run: Run, print: Print): Command {
  const commerce = new Command('commerce').description(
    'connect a shop to its commerce provider, or show what was requested of it',
  );
  addConnect(commerce, run, print);
  addShow(commerce, run, print);
  addRotate(commerce, run, print);
  addDisconnect(commerce, run, print);
  addEffects(commerce, run, print);
  commerce.addCommand(checkCommand(run, print));
  commerce.addCommand(orderCommand(run, print));
  commerce.addCommand(settleCommand(run, print));
  commerce.addCommand(shopifyCommands(run, print));
  return commerce;
}

function addConnect(commerce: Command, run: Run, print: Print): void {
  commerce
    .command('connect')
    .description(
      "set the address of a shop's endpoint (docs/commerce.md); the first time, prints the secret that signs requests",
    )
    .requiredOption('--shop <id>', 'the shop', shopId)
    .requiredOption(
      '--url <url>',
      'https address of the endpoint; a local stack also accepts http://127.0.0.1:<port>',
    )
    .option(
      '--force',
      'also while effects have an unknown outcome; the new address may then make them again',
    )
    .action(({ shop, url, force }: ShopOption & { readonly url: string; readonly force?: true }) =>
      run(async (context) => {
        const { pool, services } = context;
        await requireShop(pool, shop);
        const call = { shopId: shop, actor: context.by.actor };
        const { connection, secret } = await services.commerce.connect({
          ...call,
          url,
          force: force === true,
        });
        await record(context, shop, 'commerce.connected', { url });
        print(lineOf(shop, sent(connection, 'connection')));
        print(secret ? secretLine(secret.value) : 'the secret has not changed');
      }),
    );
}

function addShow(commerce: Command, run: Run, print: Print): void {
  commerce
    .command('show')
    .description('show the connection of a shop')
    .requiredOption('--shop <id>', 'the shop', shopId)
    .action(({ shop }: ShopOption) =>
      run(async ({ pool, services, by }) => {
        await requireShop(pool, shop);
        const call = { shopId: shop, actor: by.actor };
        try {
          const { connection } = await services.commerce.getConnection(call);
          print(lineOf(shop, sent(connection, 'connection')));
        } catch (error) {
          if (reasonOf(error) !== ErrorReason.COMMERCE_CONNECTION_NOT_FOUND) throw error;
          print(`shop ${shop} is not connected`);
        }
      }),
    );
}

function addRotate(commerce: Command, run: Run, print: Print): void {
  commerce
    .command('rotate')
    .description('make a new secret; during the overlap the old one signs, too')
    .requiredOption('--shop <id>', 'the shop', shopId)
    .option('--overlap <hours>', '0 to 168', overlapHours, 24)
    .action(({ shop, overlap }: ShopOption & { readonly overlap: number }) =>
      run(async (context) => {
        const { pool, services, by } = context;
        await requireShop(pool, shop);
        const { secret } = await services.commerce.rotateSecret({
          shopId: shop,
          actor: by.actor,
          idempotencyKey: randomUUID(),
          overlapHours: overlap,
        });
        await record(context, shop, 'commerce.secret.rotated', { overlap_hours: overlap });
        print(secretLine(sent(secret, 'secret').value));
      }),
    );
}

function addDisconnect(commerce: Command, run: Run, print: Print): void {
  commerce
    .command('disconnect')
    .description(
      "remove a shop's connection with its secrets or its token; a live shop's returns are then not processed in production",
    )
    .requiredOption('--shop <id>', 'the shop', shopId)
    .option(
      '--force',
      'also while effects have an unknown outcome; another provider may then make them again',
    )
    .action(({ shop, force }: ShopOption & { readonly force?: true }) =>
      run(async (context) => {
        const { pool, services, by } = context;
        await requireShop(pool, shop);
        const call = { shopId: shop, actor: by.actor, force: force === true };
        const { disconnected } = await services.commerce.disconnect(call);
        if (disconnected) await record(context, shop, 'commerce.disconnected', {});
        print(`shop ${shop} is ${disconnected ? 'disconnected' : 'not connected'}`);
      }),
    );
}

function addEffects(commerce: Command, run: Run, print: Print): void {
  commerce
    .command('effects')
    .description(
      'list what processing requested for a return: effect, key, asked, answered, amount',
    )
    .requiredOption('--shop <id>', 'the shop', shopId)
    .requiredOption('--return <id>', 'the return', returnId)
    .action(({ shop, return: of }: ShopOption & { readonly return: bigint }) =>
      run(async ({ pool, services, by }) => {
        await requireShop(pool, shop);
        const call = { shopId: shop, actor: by.actor, returnId: of };
        const { effects } = await services.commerce.listEffects(call);
        if (effects.length === 0) print(`return ${of} has no effects`);
        for (const effect of effects.map(effectView)) {
          const times = [`asked ${effect.asked ?? '-'}`, `answered ${effect.answered ?? '-'}`];
          const money = `${effect.amount} ${effect.currency}`;
          const ids = [
            effect.provider_id ?? '-',
            ...(effect.problem === null ? [] : [effect.problem]),
          ];
          print([effect.effect, effect.state, effect.key, ...times, money, ...ids].join('  '));
          if (effect.state === 'unknown') {
            print(
              `  process the return again; if it stays unknown: commerce settle --shop ${shop} --return ${of} --effect ${effect.effect} with --made <id> or --not-made`,
            );
          }
        }
      }),
    );
}

function record(
  { pool, by }: AdminContext,
  shop: bigint,
  action: string,
  detail: NonNullable<AuditEntry['detail']>,
): Promise<void> {
  return recordAudit(pool, { shopId: shop, by, action, subject: `${shop}`, detail });
}

function lineOf(shop: bigint, connection: Connection): string {
  const { url, shopDomain, scopes, connectedAt, uninstalledAt, refusedAt } = connection;
  const adapter = ADAPTER.toText(connection.adapter);
  const line = `shop ${shop}  ${adapter}  ${url || shopDomain}  connected ${timeOf(connectedAt)}`;
  const granted = scopes.length > 0 ? `  scopes ${scopes.join(',')}` : '';
  const removed = uninstalledAt ? `  the merchant removed the app ${timeOf(uninstalledAt)}` : '';
  const refused = refusedAt
    ? `  Shopify refuses the access since ${timeOf(refusedAt)}: the merchant must install the app again`
    : '';
  return `${line}${granted}${removed}${refused}`;
}

function timeOf(time: Timestamp | undefined): string {
  return time ? timestampDate(time).toISOString() : '-';
}

function secretLine(value: string): string {
  return `secret ${value}  (shown only now)`;
}
