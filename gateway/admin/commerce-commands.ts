import { randomUUID } from 'node:crypto';
import { type Timestamp, timestampDate } from '@bufbuild/protobuf/wkt';
import { Command, Option } from 'commander';
import {
  Check,
  CheckSchema,
  CommerceAdapterSchema,
  type Connection,
  type Difference,
  Difference_ProblemSchema,
  EffectKindSchema,
} from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import type { Amount, Money } from '../../proto/gen/rms/common/v1/money_pb.ts';
import { EFFECT_KINDS } from '../../services/contract/resources/effect.ts';
import { effectView } from '../../services/contract/views/objects.ts';
import { enumText } from '../../services/platform/values/enum-text.ts';
import { reasonOf } from '../../services/platform/values/errors.ts';
import { sent } from '../actions/context.ts';
import { type AuditEntry, recordAudit } from '../tenancy/audit.ts';
import { requireShop } from '../tenancy/shops.ts';
import type { AdminContext, Print, Run } from './admin-context.ts';
import { day, orderId, overlapHours, returnId, type ShopOption, shopId } from './arguments.ts';
import { sampleOrdersCommand } from './sample-orders-command.ts';

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
  commerce.addCommand(sampleOrdersCommand(run, print));
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

/** The check that runs first. When it fails, the other checks make no sense. */
const FIRST = Check.CONNECTION;
const CHECKS: readonly Check[] = [
  FIRST,
  ...CheckSchema.values
    .map(({ number }) => number as Check)
    .filter((check) => check !== Check.UNSPECIFIED && check !== FIRST),
];

interface CheckOptions extends ShopOption {
  readonly order?: bigint;
  readonly orderName?: string;
}

/** The order of the requests, when the caller names none. It need not exist. */
const TEST_ORDER = { id: 1n, name: '#1' };
/** Time limit of the call. It is longer than the longest check. Milliseconds. */
const CHECK_MS = 120_000;

/** `commerce check`: asks a merchant's endpoint the questions of docs/commerce.md. */
function checkCommand(run: Run, print: Print): Command {
  return new Command('check')
    .description(
      "call a shop's endpoint with a test order, and judge signatures, idempotency, errors, money and timing: about 90 requests, each of which may take 8 seconds. Every request says `sandbox`; an endpoint must move no money for it",
    )
    .requiredOption('--shop <id>', 'the shop', shopId)
    .option('--order <id>', "your platform's id of an order for tests (default: 1)", orderId)
    .option(
      '--order-name <name>',
      'its name (default: #1). With it the endpoint must find the order by this name, unless it looks up none',
    )
    .action((o: CheckOptions, command: Command) => {
      if (o.orderName !== undefined && o.order === undefined) {
        command.error('error: --order-name needs --order, the id of the same order');
      }
      return run(async ({ pool, services, by }) => {
        await requireShop(pool, o.shop);
        const about = {
          shopId: o.shop,
          actor: by.actor,
          providerOrderId: o.order ?? TEST_ORDER.id,
          orderName: o.orderName ?? TEST_ORDER.name,
          orderExists: o.orderName !== undefined,
        };
        let failed = 0;
        for (const check of CHECKS) {
          const call = { ...about, check };
          const { problems, title } = await services.commerce.runCheck(call, {
            timeoutMs: CHECK_MS,
          });
          failed += problems.length > 0 ? 1 : 0;
          print(`${problems.length > 0 ? 'FAILED' : 'passed'}  ${title}`);
          for (const problem of problems) print(`        ${problem}`);
          if (check === FIRST && failed > 0) throw new Error('the other checks were not made');
        }
        if (failed > 0) throw new Error(`${failed} of ${CHECKS.length} checks failed`);
        print(`all ${CHECKS.length} checks passed`);
      });
    });
}

interface OrderOptions {
  readonly shop: bigint;
  readonly name: string;
}

/** `commerce order`: shows an order as the shop's commerce provider has it. */
function orderCommand(run: Run, print: Print): Command {
  return new Command('order')
    .description(
      "show an order as the shop's commerce provider has it: its lines with units and amounts, and its shipping; for returns that are submitted by the name of their order",
    )
    .requiredOption('--shop <id>', 'the shop', shopId)
    .requiredOption('--name <name>', 'its name, such as #1001')
    .action(({ shop, name }: OrderOptions) =>
      run(async ({ pool, services, by }) => {
        await requireShop(pool, shop);
        const call = { shopId: shop, actor: by.actor, name };
        const { order } = await services.commerce.findOrder(call);
        if (!order) return print(`there is no order ${name}`);
        const { currency, presentmentCurrency } = order;
        const text = (amount: Amount | undefined) =>
          `${amount?.shop} ${currency} (${amount?.presentment} ${presentmentCurrency})`;
        print(`${order.name}  ${order.id}  ${currency}, paid in ${presentmentCurrency}`);
        for (const line of order.lines) {
          const units = `${line.returnable} of ${line.quantity} returnable`;
          const amounts = `paid ${text(line.paid?.total)}, left ${text(line.left?.total)}`;
          print([`${line.id}`, line.sku || '-', line.title, units, amounts].join('  '));
        }
        const { shippingPaid, shippingLeft } = order;
        if (shippingPaid) print(`shipping: paid ${text(shippingPaid)}, left ${text(shippingLeft)}`);
        const { refundedForNoLine: goodwill, unpaid } = order;
        if (isAboveZero(goodwill)) print(`refunded for no line: ${text(goodwill)}`);
        if (isAboveZero(unpaid)) print(`not paid: ${text(unpaid)}`);
      }),
    );
}

function isAboveZero(amount: Amount | undefined): boolean {
  return /[1-9]/.test(`${amount?.shop}${amount?.presentment}`);
}

const KIND = enumText(EffectKindSchema);

interface SettleOptions {
  readonly shop: bigint;
  readonly return: bigint;
  readonly effect: string;
  readonly made?: string;
  readonly notMade?: true;
  readonly amount: string;
  readonly name: string;
  readonly gateway: string;
}

/** `commerce settle`: what a person found in the provider's records about an effect with an unknown outcome. */
function settleCommand(run: Run, print: Print): Command {
  return new Command('settle')
    .description(
      "record what the provider's own records say about an effect with an unknown outcome: --made or --not-made",
    )
    .requiredOption('--shop <id>', 'the shop', shopId)
    .requiredOption('--return <id>', 'the return', returnId)
    .addOption(new Option('--effect <kind>', 'which').choices(EFFECT_KINDS).makeOptionMandatory())
    .option('--made <id>', "it was made: the provider's id of it")
    .option('--amount <decimal>', 'with --made: its amount, when it is not the requested one', '')
    .option('--name <name>', 'with --made: the name of an order', '')
    .option('--gateway <gateway>', 'with --made: the payment gateway of a refund', '')
    .option('--not-made', 'it was not made; the next run requests it')
    .action((o: SettleOptions, command: Command) => {
      if ((o.made === undefined) === (o.notMade === undefined)) {
        command.error('error: say either --made <id> or --not-made');
      }
      return run(async ({ pool, services, by }) => {
        await requireShop(pool, o.shop);
        const { amount, name, gateway } = o;
        const { effect } = await services.commerce.settleEffect({
          shopId: o.shop,
          actor: by.actor,
          returnId: o.return,
          kind: KIND.fromText(o.effect),
          ...(o.made !== undefined && { made: { providerId: o.made, amount, name, gateway } }),
        });
        const after = effectView(sent(effect, 'effect'));
        await recordAudit(pool, {
          shopId: o.shop,
          by,
          action: 'commerce.effect.settled',
          subject: `${o.return}`,
          detail: {
            effect: after.effect,
            state: after.state,
            amount: `${after.amount} ${after.currency}`,
            provider_id: after.provider_id ?? '',
          },
        });
        const id = after.provider_id === null ? '' : `  ${after.provider_id}`;
        print(`${after.effect}  ${after.state}  ${after.amount} ${after.currency}${id}`);
      });
    });
}

/** `commerce shopify …`: the connection of a shop to its store at Shopify. */
export function shopifyCommands(run: Run, print: Print): Command {
  const shopify = new Command('shopify').description('connect a shop to its store at Shopify');
  addInstallLink(shopify, run, print);
  addDataRequests(shopify, run, print);
  return shopify;
}

function addInstallLink(shopify: Command, run: Run, print: Print): void {
  shopify
    .command('install-link')
    .description(
      'make the link with which the merchant connects a shop to its store (docs/commerce-shopify-install.md); it is valid for 15 minutes and for one install, and replaces an earlier link of the shop',
    )
    .requiredOption('--shop <id>', 'the shop', shopId)
    .requiredOption('--domain <domain>', 'the permanent domain of the store, <name>.myshopify.com')
    .action(({ shop, domain }: { readonly shop: bigint; readonly domain: string }) =>
      run(async (context) => {
        const { pool, services, by } = context;
        await requireShop(pool, shop);
        const call = { shopId: shop, actor: by.actor, shopDomain: domain };
        const { publicUrl } = context;
        const { link, expiresAt } = await services.commerce.createShopifyInstallLink(call);
        await recordAudit(pool, {
          shopId: shop,
          by,
          action: 'commerce.shopify.link_created',
          subject: `${shop}`,
          detail: { domain },
        });
        const until = timestampDate(sent(expiresAt, 'expires_at')).toISOString();
        print(`${publicUrl}/commerce/shopify/install?link=${link}`);
        print(`for ${domain}, until ${until}, shown only now`);
      }),
    );
}

function addDataRequests(shopify: Command, run: Run, print: Print): void {
  shopify
    .command('data-requests')
    .description(
      'list customers of a store who asked for their data, newest first: time, request, customer and orders, by their ids at Shopify',
    )
    .requiredOption('--shop <id>', 'the shop', shopId)
    .action(({ shop }: { readonly shop: bigint }) =>
      run(async ({ pool, services, by }) => {
        await requireShop(pool, shop);
        const call = { shopId: shop, actor: by.actor };
        const { requests } = await services.commerce.listShopifyDataRequests(call);
        if (requests.length === 0) print(`shop ${shop} has no data requests`);
        for (const { receivedAt, requestId, customerId, orderIds } of requests) {
          const time = timestampDate(sent(receivedAt, 'received_at')).toISOString();
          const orders = orderIds.length > 0 ? orderIds.join(',') : '-';
          print(`${time}  request ${requestId}  customer ${customerId}  orders ${orders}`);
        }
      }),
    );
}

const PROBLEM = enumText(Difference_ProblemSchema);
const DAY_MS = 86_400_000;
/** A day of a large shop has many effects, and a provider that cannot list them is asked for each. Milliseconds. */
const DAY_TIMEOUT_MS = 3_600_000;

interface ReconcileOptions {
  readonly shop: bigint;
  readonly from: string;
  readonly to?: string;
}

/** `reconcile`: compares the effects of days with those of the shop's commerce provider. */
export function reconcileCommand(run: Run, print: Print): Command {
  return new Command('reconcile')
    .description(
      "compare a shop's refunds, orders and gift cards with those of its commerce provider, day by day in UTC",
    )
    .requiredOption('--shop <id>', 'the shop', shopId)
    .requiredOption('--from <day>', 'the first day, such as 2026-11-20', day)
    .option('--to <day>', 'the last day; the first one when absent', day)
    .action((o: ReconcileOptions, command: Command) => {
      const days = daysOf(o);
      if (days.length === 0) command.error('error: --to must not be before --from');
      return run(async ({ pool, services, by }) => {
        await requireShop(pool, o.shop);
        let differences = 0;
        for (const one of days) {
          const call = { shopId: o.shop, actor: by.actor, day: one };
          const result = await services.commerce.reconcile(call, { timeoutMs: DAY_TIMEOUT_MS });
          differences += result.total;
          const note = result.listed ? '' : '  (the provider lists no effects)';
          print(`${one}  ${result.compared} compared, ${result.total} differ${note}`);
          for (const difference of result.differences) print(`  ${differenceLine(difference)}`);
        }
        if (differences > 0) throw new Error(`${differences} effects differ`);
      });
    });
}

function daysOf({ from, to = from }: ReconcileOptions): string[] {
  const first = Date.parse(from);
  const count = Math.floor((Date.parse(to) - first) / DAY_MS) + 1;
  return Array.from({ length: Math.max(0, count) }, (_, at) =>
    new Date(first + at * DAY_MS).toISOString().slice(0, 10),
  );
}

function differenceLine({ problem, kind, key, ours, theirs, providerId }: Difference): string {
  const what = [PROBLEM.toText(problem), KIND.toText(kind), key];
  return [...what, `ours ${moneyOf(ours)}`, `theirs ${moneyOf(theirs)}`, providerId || '-'].join(
    '  ',
  );
}

function moneyOf(money: Money | undefined): string {
  return money ? `${money.value} ${money.currency}` : '-';
}
