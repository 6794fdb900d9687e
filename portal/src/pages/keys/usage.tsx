import { useQuery } from '@connectrpc/connect-query';
import { Alert, Code, Group, Stack, Text } from '@mantine/core';
import { UsageService, type VersionUsage } from '../../../../proto/gen/rms/portal/v1/usage_pb.ts';
import { FirstLine, SecondLine } from '../../parts/cell-lines.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { Needs } from '../../parts/needs.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { Time } from '../../parts/time.tsx';
import { count, numberText } from '../../words.ts';

export function UsagePage() {
  const { listVersionUsage } = UsageService.method;
  const query = useQuery(listVersionUsage, {});
  return (
    <Needs method={listVersionUsage}>
      <PageHead
        title="Usage by version"
        about="Which key or app called which version of the REST API in the last 90 days. The version that ends first is at the top."
      />
      <Loaded query={query}>
        {({ usage, more }) =>
          usage.length === 0 ? (
            <EmptyState title="Nobody called the API in the last 90 days">
              Each key and app appears here within a minute of its first request.
            </EmptyState>
          ) : (
            <Stack gap="md">
              <Ending usage={usage} />
              <DataTable
                caption="Usage by version"
                columns={COLUMNS}
                rows={usage}
                rowKey={(one) => `${one.requested} ${one.credentialKind} ${one.credentialId}`}
              />
              {more && <Text c="dimmed">There are more rows: these are the first 1,000.</Text>}
            </Stack>
          )
        }
      </Loaded>
    </Needs>
  );
}

const COLUMNS: readonly Column<VersionUsage>[] = [
  {
    title: 'Version',
    cell: ({ requested, served, stage }) => (
      <>
        <Group gap={6}>
          <FirstLine>{requested || 'none named'}</FirstLine>
          <Status state={stage} />
        </Group>
        {requested !== served && <SecondLine>served by {served}</SecondLine>}
      </>
    ),
  },
  { title: 'Ends', cell: ({ endsAt }) => <Time at={endsAt} as="day" none="not known yet" /> },
  {
    title: 'Key or app',
    cell: ({ credentialKind, credentialId, description }) => (
      <>
        {description || (credentialKind === 'partner_app' ? 'Partner app' : 'API key')}
        <br />
        <Code>{credentialId}</Code>
      </>
    ),
  },
  { title: 'Requests', align: 'end', cell: ({ requests }) => numberText(BigInt(requests)) },
  { title: 'Last day', cell: ({ lastDay }) => <Time at={lastDay} as="day" /> },
  { title: 'Last operation', cell: ({ lastOperation }) => lastOperation },
];

/** The keys and apps that must change before a version ends. */
function Ending({ usage }: { readonly usage: readonly VersionUsage[] }) {
  const ending = usage.filter(({ stage }) => stage === 'deprecated' || stage === 'sunset');
  if (ending.length === 0) return null;
  const credentials = new Set(ending.map((one) => `${one.credentialKind} ${one.credentialId}`));
  return (
    <Alert
      color="yellow"
      title={`${count(credentials.size, 'key or app', 'keys or apps')} must change`}
    >
      They call a version that is deprecated or has ended. After its end, requests are answered in
      the oldest supported version, whose shape may differ.
    </Alert>
  );
}
