import { readFile } from 'node:fs/promises';
import { Command } from 'commander';
import { requireShop } from '../tenancy/shops.ts';
import type { Print, Run } from './admin-context.ts';
import { type ShopOption, shopId } from './arguments.ts';

/** Maximum number of orders that one call may have. */
const SAMPLE_ORDERS_AT_A_TIME = 100;

/** `commerce sample-orders`: orders of a shop without a platform, for tests. */
export function sampleOrdersCommand(run: Run, print: Print): Command {
  return new Command('sample-orders')
    .description(
      'give a shop without a commerce platform orders for tests: a JSON file with a list of orders, as `order.find` answers them (docs/commerce.md)',
    )
    .requiredOption('--shop <id>', 'the shop', shopId)
    .argument('<file>', 'the file')
    .action((file: string, { shop }: ShopOption) =>
      run(async ({ pool, services, by }) => {
        await requireShop(pool, shop);
        const orders: unknown = JSON.parse(await readFile(file, 'utf8'));
        if (!Array.isArray(orders)) throw new Error(`${file} has no list of orders`);
        let count = 0;
        for (let at = 0; at < orders.length; at += SAMPLE_ORDERS_AT_A_TIME) {
          const page = orders.slice(at, at + SAMPLE_ORDERS_AT_A_TIME);
          const { recorded } = await services.commerce.recordSampleOrders({
            shopId: shop,
            actor: by.actor,
            orders: page.map((order) => JSON.stringify(order)),
          });
          count += recorded;
        }
        print(`${count} ${count === 1 ? 'order' : 'orders'} recorded`);
      }),
    );
}
