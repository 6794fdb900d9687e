import { useQuery } from '@connectrpc/connect-query';
import { Stack, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { FraudService, type Report } from '../../../../proto/gen/rms/fraud/v1/fraud_pb.ts';
import type { Return } from '../../../../proto/gen/rms/returns/v1/return_pb.ts';
import { ReturnsService } from '../../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { Facts } from '../../parts/facts.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Loaded } from '../../parts/states.tsx';
import { Time } from '../../parts/time/time.tsx';
import { count, inWords } from '../../words.ts';

/** Who reported the return as fraud and why, and the numbers of the shopper's returns, which help to decide. */
export function FraudPanel({ about }: { readonly about: Return }) {
  const query = useQuery(FraudService.method.getReport, { returnId: about.id });
  const email = about.customer?.email;
  return (
    <Panel title="Fraud">
      <Loaded query={query} rows={2}>
        {({ report }) => (
          <Stack gap="sm">
            {report ? <ReportFacts report={report} /> : <NoReport />}
            {email && <Shopper email={email} />}
          </Stack>
        )}
      </Loaded>
    </Panel>
  );
}

function ReportFacts({ report }: { readonly report: Report }) {
  const { category = '', comment, reportedBy, createdAt } = report;
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

function Shopper({ email: query }: { readonly email: string }) {
  const { searchReturns } = ReturnsService.method;
  const all = useQuery(searchReturns, { query, pageSize: 1 });
  const reported = useQuery(searchReturns, { query, pageSize: 1, fraudReportedOnly: true });
  return (
    <Loaded query={all} rows={1}>
      {({ total }) => (
        <Text size="sm">
          <Link to="/returns" search={{ q: query }}>
            {count(total, 'return')} of this shopper
          </Link>
          {reported.data &&
            (reported.data.total === 0
              ? ', none reported as fraud'
              : `, ${reported.data.total} reported as fraud`)}
        </Text>
      )}
    </Loaded>
  );
}
