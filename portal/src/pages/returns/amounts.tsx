import type { Return, ReturnAmount } from '../../../../proto/gen/rms/portal/v1/return_pb.ts';
import { DataTable } from '../../parts/data-table.tsx';
import { Panel } from '../../parts/panel.tsx';
import { inWords, moneyText } from '../../words.ts';

/** The names of the REST API in words of people. */
const WORDS: Readonly<Record<string, string>> = {
  return_product_total: 'Goods, before discounts',
  return_discount_total: 'Discounts',
  return_tax_total: 'Taxes',
  return_total: 'Goods, after discounts and with taxes',
  refund_shipping_total: 'Shipping that is refunded',
  handling_fee: 'Handling fee, which is deducted',
  total: 'Total',
  refund: 'Refund to the shopper',
  return_credit_total: 'Credit for the shopper',
  exchange_total: 'Exchange items',
  exchange_credit_total: 'Credit used for the exchange',
  upsell: 'Paid on top for the exchange',
  gift_card: 'Gift card',
};

const isZero = (value: string) => Number(value) === 0;

/** The amounts of the return that are not zero, and its total, in both currencies. */
export function Amounts({ about }: { readonly about: Return }) {
  const { amounts, currency, presentmentCurrency } = about;
  const isOther = presentmentCurrency !== '' && presentmentCurrency !== currency;
  return (
    <Panel
      title="Money"
      about={
        isOther
          ? `The shopper paid in ${presentmentCurrency}. The amounts are as stored, not converted.`
          : undefined
      }
    >
      <DataTable
        caption="Money"
        rows={amounts.filter(
          ({ name, amount }) =>
            name === 'total' || !isZero(amount?.shop ?? '') || !isZero(amount?.presentment ?? ''),
        )}
        rowKey={({ name }) => name}
        columns={[
          {
            title: 'Amount',
            cell: ({ name }) => <span title={name}>{WORDS[name] ?? inWords(name)}</span>,
          },
          {
            title: `${currency}, your shop`,
            align: 'end',
            cell: ({ amount }) => moneyText(amount?.shop ?? '', currency),
          },
          ...(isOther
            ? [
                {
                  title: `${presentmentCurrency}, the shopper`,
                  align: 'end' as const,
                  cell: ({ amount }: ReturnAmount) =>
                    moneyText(amount?.presentment ?? '', presentmentCurrency),
                },
              ]
            : []),
        ]}
      />
    </Panel>
  );
}
