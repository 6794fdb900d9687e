import { Command } from 'commander';
import { requireShop } from '../tenancy/shops.ts';
import type { Print, Run } from './admin-context.ts';
import { shopId } from './arguments.ts';

interface OrderOptions {
  readonly shop: bigint;
  readonly name: string;
}

/** `commerce order`: shows an order as the shop's commerce provider has it. */
export function orderCommand(run: Run, print: Print): Command {
  return new Command('order')
    .description(
      "show an order as the shop's commerce provider has it: its lines, units and prices; for returns that are submitted by the name of their order",
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
        print(`${order.name}  ${order.id}  ${currency}, paid in ${presentmentCurrency}`);
        for (const line of order.lines) {
          const { shop: ours = '', presentment: paid = '' } = line.unitPrice ?? {};
          const units = `${line.returnable} of ${line.quantity} returnable`;
          const price = `${ours} ${currency} (${paid} ${presentmentCurrency}) each`;
          print([`${line.id}`, line.sku || '-', line.title, units, price].join('  '));
        }
      }),
    );
}
