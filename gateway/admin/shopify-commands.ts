import { timestampDate } from '@bufbuild/protobuf/wkt';
import { Command } from 'commander';
import { sent } from '../actions/context.ts';
import { recordAudit } from '../tenancy/audit.ts';
import { requireShop } from '../tenancy/shops.ts';
import type { Print, Run } from './admin-context.ts';
import { shopId } from './arguments.ts';

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
