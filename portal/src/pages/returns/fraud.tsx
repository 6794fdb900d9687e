import { useQuery } from '@connectrpc/connect-query';
import { Stack, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import type { Return } from '../../../../proto/gen/rms/portal/v1/return_pb.ts';
import {
  type FraudReport,
  ReturnsService,
  type ShopperReturns,
} from '../../../../proto/gen/rms/portal/v1/returns_pb.ts';
import { Facts } from '../../parts/facts.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Loaded } from '../../parts/states.tsx';
import { Time } from '../../parts/time.tsx';
import { count, inWords } from '../../words.ts';

/** Who reported the return as fraud and why, and the numbers of the shopper's returns, which help to decide. */
export function FraudPanel({ about }: { readonly about: Return }) {
  const query = useQuery(ReturnsService.method.getFraudReport, {
    returnId: about.summary?.id ?? '0',
  });
  return (
    <Panel title="Fraud">
      <Loaded query={query} rows={2}>
        {({ report, shopper }) => (
          <Stack gap="sm">
            {report ? <Report report={report} /> : <NoReport />}
            {shopper && <Shopper of={shopper} />}
          </Stack>
        )}
      </Loaded>
    </Panel>
  );
}

function Report({ report }: { readonly report: FraudReport }) {
  const { category, comment, reportedBy, createdAt } = report;
  return (
    <Facts
      rows={[
        ['Reported as', inWords(category) || 'No category'],
        ['Comment', comment],
        ['Reported by', reportedBy?.name || reportedBy?.id],
        ['Reported', <Time key="at" at={createdAt} />],
      ]}
    />
  );
}

function NoReport() {
  return (
    <Text size="sm" c="dimmed">
      Nobody has reported this return.
    </Text>
  );
}

function Shopper({ of: { email, returns, fraudReported } }: { readonly of: ShopperReturns }) {
  return (
    <Text size="sm">
      <Link to="/returns" search={{ q: email }}>
        {count(returns, 'return')} of this shopper
      </Link>
      {fraudReported === 0 ? ', none reported as fraud' : `, ${fraudReported} reported as fraud`}
    </Text>
  );
}
