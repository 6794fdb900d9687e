import { randomUUID } from 'node:crypto';
import { type Timestamp, timestampDate } from '@bufbuild/protobuf/wkt';
import { Code, ConnectError } from '@connectrpc/connect';
import { Command } from 'commander';
import {
  type Delivery,
  DeliveryState,
  DeliveryStateSchema,
  type LastFailure,
  type Subscription,
  SubscriptionStatus,
  SubscriptionStatusSchema,
} from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { enumText } from '../../services/platform/values/enum-text.ts';
import { sent } from '../actions/context.ts';
import { recordAudit } from '../tenancy/audit.ts';
import { requireShop } from '../tenancy/shops.ts';
import type { AdminContext, Print, Run } from './admin-context.ts';
import { type ShopOption, shopId, subscriptionId } from './arguments.ts';

const STATUS = enumText(SubscriptionStatusSchema);
const STATE = enumText(DeliveryStateSchema);

/** Deliveries in a list. */
const PAGE = 50;

interface OneOption extends ShopOption {
  readonly webhook: bigint;
}

/** `webhooks …`: what a shop's webhooks do, for support. Addresses are shown, bodies and secrets are not. */
export function webhookCommands(run: Run, print: Print): Command {
  const webhooks = new Command('webhooks').description(
    'show the webhooks of a shop and their deliveries, or send what waits',
  );
  const subscriptionsOf = async ({ pool, services, by }: AdminContext, shop: bigint) => {
    await requireShop(pool, shop);
    const include = { includeBacklog: true, includeHealth: true };
    const call = { shopId: shop, actor: by.actor, ...include };
    return (await services.webhooks.listSubscriptions(call)).subscriptions;
  };
  webhooks
    .command('list')
    .description(
      'list the webhooks: id, state, trigger and topic, address, what waits, and a limit',
    )
    .requiredOption('--shop <id>', 'the shop', shopId)
    .action(({ shop }: ShopOption) =>
      run(async (context) => {
        const all = await subscriptionsOf(context, shop);
        if (all.length === 0) print(`shop ${shop} has no webhooks`);
        for (const one of all) print(lineOf(one));
      }),
    );
  webhooks
    .command('failing')
    .description('list the webhooks that fail or are inactive, each with its last failure')
    .requiredOption('--shop <id>', 'the shop', shopId)
    .action(({ shop }: ShopOption) =>
      run(async (context) => {
        const all = await subscriptionsOf(context, shop);
        const failing = all.filter(
          ({ failures, status }) => failures > 0 || status !== SubscriptionStatus.ACTIVE,
        );
        if (failing.length === 0) print(`no webhook of shop ${shop} fails`);
        for (const one of failing) {
          const call = { shopId: shop, actor: context.by.actor, subscriptionId: one.id };
          const found = await unlessDeleted(context.services.webhooks.getSubscription(call));
          if (!found) continue;
          print(lineOf(one));
          const failure = failureText(one, sent(found.subscription, 'subscription').lastFailure);
          if (failure) print(failure);
          if (one.disablesAt) print(`  becomes inactive at ${timeOf(one.disablesAt)}`);
        }
      }),
    );
  webhooks
    .command('waiting')
    .description(
      `list deliveries that wait or are held, newest event first, at most ${PAGE}: id, state, trigger, event, next attempt, last result`,
    )
    .requiredOption('--shop <id>', 'the shop', shopId)
    .option('--webhook <id>', 'only of this webhook', subscriptionId)
    .action(({ shop, webhook }: ShopOption & { readonly webhook?: bigint }) =>
      run(async ({ pool, services, by }) => {
        await requireShop(pool, shop);
        const { deliveries, nextCursor } = await services.webhooks.listDeliveries({
          ...{ shopId: shop, actor: by.actor, pageSize: PAGE },
          subscriptionId: webhook ?? 0n,
          states: [DeliveryState.WAITING, DeliveryState.HELD],
        });
        if (deliveries.length === 0) print(`no delivery of shop ${shop} waits`);
        for (const one of deliveries) print(deliveryLine(one));
        if (nextCursor !== '') print(`there are more than ${PAGE}`);
      }),
    );
  webhooks
    .command('retry')
    .description('send the waiting deliveries of a webhook now, whose receiver works again')
    .requiredOption('--shop <id>', 'the shop', shopId)
    .requiredOption('--webhook <id>', 'the webhook', subscriptionId)
    .action(({ shop, webhook }: OneOption) =>
      run(async ({ pool, services, by }) => {
        await requireShop(pool, shop);
        const call = { shopId: shop, actor: by.actor, subscriptionId: webhook };
        const key = { idempotencyKey: randomUUID() };
        // A webhook of another shop gets no entry.
        await services.webhooks.getSubscription(call);
        const entry = { action: 'webhook.retried', subject: `${webhook}` };
        await recordAudit(pool, { shopId: shop, by, ...entry });
        const { count, more } = await services.webhooks.retryDeliveries({ ...call, ...key });
        print(
          `${count} ${count === 1 ? 'delivery is' : 'deliveries are'} due now${more ? '; run it again for more' : ''}`,
        );
      }),
    );
  return webhooks;
}

/** Returns undefined when the webhook was deleted since it was listed. */
async function unlessDeleted<T>(response: Promise<T>): Promise<T | undefined> {
  try {
    return await response;
  } catch (error) {
    if (ConnectError.from(error).code === Code.NotFound) return undefined;
    throw error;
  }
}

function failureText({ failures, failingSince }: Subscription, last: LastFailure | undefined) {
  const count = `${failures} ${failures === 1 ? 'failure' : 'failures'} since ${timeOf(failingSince)}`;
  return last && `  ${count}; last at ${timeOf(last.startedAt)}: ${last.error}`;
}

function lineOf(one: Subscription): string {
  const { count = 0, more = false, oldestAt, delayedUntil } = one.backlog ?? {};
  const isDelayed = delayedUntil !== undefined && timestampDate(delayedUntil) > new Date();
  const delay = isDelayed ? `, delayed by a limit until ${timeOf(delayedUntil)}` : '';
  const backlog =
    count === 0
      ? 'nothing waits'
      : `${count}${more ? '+' : ''} wait, oldest event ${timeOf(oldestAt)}${delay}`;
  const paused = one.health?.pausedSince;
  const reason =
    one.status === SubscriptionStatus.ACTIVE
      ? paused && `paused since ${timeOf(paused)}: one delivery is tried at a time`
      : one.inactiveReason || 'set by a person, key or app';
  const state = `${STATUS.toText(one.status)}${reason ? ` (${reason})` : ''}`;
  return [one.id, state, `${one.trigger} → ${one.topic}`, one.url, backlog].join('  ');
}

function deliveryLine({ id, state, trigger, eventId, nextAttemptAt, attempts }: Delivery): string {
  const last = attempts.at(-1);
  const isDue = nextAttemptAt !== undefined && timestampDate(nextAttemptAt) <= new Date();
  const next = nextAttemptAt ? `next attempt ${timeOf(nextAttemptAt)}` : 'no next attempt';
  const result = last ? `last: ${last.status || 'no response'} ${last.error}` : 'not tried yet';
  return [id, STATE.toText(state), trigger, `event ${eventId}`, isDue ? 'due now' : next, result]
    .join('  ')
    .trim();
}

function timeOf(at: Timestamp | undefined): string {
  return at ? timestampDate(at).toISOString() : '-';
}
