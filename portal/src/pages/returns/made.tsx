import type { ReturnEffect } from '../../../../proto/gen/rms/portal/v1/return_pb.ts';
import { DataTable } from '../../parts/data-table.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Time } from '../../parts/time.tsx';
import { inWords, moneyText } from '../../words.ts';

/** What processing made at the commerce provider. */
export function MadePanel({ effects }: { readonly effects: readonly ReturnEffect[] }) {
  if (effects.length === 0) return null;
  return (
    <Panel title="Made by processing">
      <DataTable
        caption="Orders, gift cards and refunds"
        rows={effects}
        rowKey={({ kind, reference }) => `${kind} ${reference}`}
        columns={[
          { title: 'What', cell: ({ kind }) => inWords(kind) },
          { title: 'Reference', cell: ({ reference }) => reference },
          {
            title: 'Amount',
            align: 'end',
            cell: ({ money }) => (money ? moneyText(money.value, money.currency) : '–'),
          },
          { title: 'When', cell: ({ createdAt }) => <Time at={createdAt} /> },
        ]}
      />
    </Panel>
  );
}
