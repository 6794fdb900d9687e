import { useQuery } from '@connectrpc/connect-query';
import { Text } from '@mantine/core';
import type { Return } from '../../../../proto/gen/rms/portal/v1/return_pb.ts';
import { ReturnsService } from '../../../../proto/gen/rms/portal/v1/returns_pb.ts';
import { Facts } from '../../parts/facts.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Loaded } from '../../parts/states.tsx';
import { Time } from '../../parts/time.tsx';
import { inWords } from '../../words.ts';

export function FraudPanel({ about }: { readonly about: Return }) {
  const query = useQuery(ReturnsService.method.getFraudReport, {
    returnId: about.summary?.id ?? '0',
  });
  return (
    <Panel title="Fraud report">
      <Loaded query={query} rows={1}>
        {({ report }) =>
          report ? (
            <Facts
              rows={[
                ['Category', inWords(report.category)],
                ['Comment', report.comment],
                ['Reported by', report.reportedBy?.name || report.reportedBy?.id],
                ['Reported', <Time key="at" at={report.createdAt} />],
              ]}
            />
          ) : (
            <Text size="sm" c="dimmed">
              Nobody has reported this return.
            </Text>
          )
        }
      </Loaded>
    </Panel>
  );
}
