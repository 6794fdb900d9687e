import { type Timestamp, timestampDate } from '@bufbuild/protobuf/wkt';
import { useInfiniteQuery } from '@connectrpc/connect-query';
import { Group } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { ReturnsService } from '../../../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { Withdrawal } from '../../../../proto/gen/rms/returns/v1/withdrawals_pb.ts';
import { PAGES } from '../../api/pages.ts';
import { useWrite } from '../../api/use-write.ts';
import { FirstLine, SecondLine } from '../../parts/cell-lines.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { More } from '../../parts/more.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { RowButton } from '../../parts/row-button.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { LongText } from '../../parts/text/long-text.tsx';
import { Time } from '../../parts/time/time.tsx';
import { useSession } from '../../session/session.tsx';

/** What shoppers declared on the shop's page, with the time until which they must be paid. */
export function WithdrawalsPage() {
  const pages = useInfiniteQuery(
    ReturnsService.method.listWithdrawals,
    { pageSize: 50, cursor: '' },
    PAGES,
  );
  return (
    <>
      <PageHead
        title="Withdrawals"
        about="Shoppers who withdrew from a contract on your page. A withdrawal never changes, and is kept for three years as a proof."
      />
      <Loaded query={pages} rows={3}>
        {(data) => {
          const rows = data.pages.flatMap((page) => page.withdrawals);
          return rows.length === 0 ? (
            <EmptyState title="No withdrawals">
              Each page for shoppers links to the form. Set up the page in the settings.
            </EmptyState>
          ) : (
            <>
              <DataTable
                caption="Withdrawals"
                columns={COLUMNS}
                rows={rows}
                rowKey={({ id }) => String(id)}
              />
              <More pages={pages} shown="These are all withdrawals." />
            </>
          );
        }}
      </Loaded>
    </>
  );
}

const COLUMNS: readonly Column<Withdrawal>[] = [
  { title: 'Received', cell: ({ declaredAt }) => <Time at={declaredAt} as="exact" /> },
  {
    title: 'Shopper',
    roomy: true,
    cell: ({ name, email }) => (
      <>
        <FirstLine>
          <LongText text={name} />
        </FirstLine>
        <SecondLine>
          <LongText text={email} />
        </SecondLine>
      </>
    ),
  },
  { title: 'Order', cell: ({ orderName }) => <LongText text={orderName} /> },
  {
    title: 'Pay until',
    cell: ({ declaredAt }) => declaredAt && <Time at={dueOf(declaredAt)} as="day" />,
  },
  { title: 'Return', cell: (of) => <ReturnOf of={of} /> },
];

/** Directive 2011/83/EU, Article 13(1): payments go back within 14 days. */
const PAY_DAYS = 14;

function dueOf(declaredAt: Timestamp): Date {
  return new Date(timestampDate(declaredAt).getTime() + PAY_DAYS * 86_400_000);
}

function ReturnOf({ of }: { readonly of: Withdrawal }) {
  const { can } = useSession();
  const { returnWithdrawal } = ReturnsService.method;
  const { run, isPending } = useWrite(returnWithdrawal, { done: 'The return is made.' });
  return (
    <Group gap="xs">
      {of.returnId !== 0n && (
        <Link to="/returns/$returnId" params={{ returnId: String(of.returnId) }}>
          Return {String(of.returnId)}
        </Link>
      )}
      {of.returnId === 0n && can(returnWithdrawal) && (
        <RowButton
          text="Make a return"
          label={`Make a return of order ${of.orderName}`}
          hint="Of all that is left of the order"
          onClick={() => run({ withdrawalId: of.id })}
          isPending={isPending}
        />
      )}
      <RowButton
        text="Save the proof"
        label={`Save the proof of order ${of.orderName}`}
        onClick={() => saveProof(of)}
      />
    </Group>
  );
}

/** Saves what was declared, and when, as a file. */
function saveProof({ id, shopId, orderName, name, email, declaredAt, returnId }: Withdrawal): void {
  const proof = {
    withdrawal: String(id),
    shop: String(shopId),
    order_name: orderName,
    name,
    email,
    declared_at: declaredAt ? timestampDate(declaredAt).toISOString() : null,
    return_id: returnId === 0n ? null : String(returnId),
  };
  const blob = new Blob([JSON.stringify(proof, null, 2)], { type: 'application/json' });
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = `withdrawal-${id}.json`;
  link.click();
  URL.revokeObjectURL(link.href);
}
