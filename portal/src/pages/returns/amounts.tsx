import type { Return, ReturnAmount } from '../../../../proto/gen/rms/portal/v1/return_pb.ts';
import { DataTable } from '../../parts/data-table.tsx';
import { Panel } from '../../parts/panel.tsx';
import { inWords, moneyText } from '../../words.ts';

/** Every amount of the return in both currencies. */
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
        rows={amounts}
        rowKey={({ name }) => name}
        columns={[
          {
            title: 'Amount',
            cell: ({ name }) => <span title={name}>{inWords(name)}</span>,
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
