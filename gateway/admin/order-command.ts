import { Command } from 'commander';
import type { Amount } from '../../proto/gen/rms/common/v1/money_pb.ts';
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
