import { useQuery } from '@connectrpc/connect-query';
import { Alert, Badge, Code, Group, Stack, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { UsageService, type VersionUsage } from '../../../../proto/gen/rms/portal/v1/usage_pb.ts';
import { Bullets } from '../../parts/bullets.tsx';
import { FirstLine, SecondLine } from '../../parts/cell-lines.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { LongText } from '../../parts/text/long-text.tsx';
import { Time } from '../../parts/time/time.tsx';
import { count, numberText } from '../../words.ts';

export function UsagePage() {
  const query = useQuery(UsageService.method.listVersionUsage, {});
  return (
    <>
      <PageHead
        title="Who calls which version"
        about={
          <>
            What others ask of us: each key and app that called our REST API in the last 90 days,
            the version that ends first at the top. What we send to others has its own{' '}
            <Link to="/payload-version">payload version</Link>.
          </>
        }
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
              <Callers usage={usage} />
              <DataTable
                caption="Who calls which version"
                columns={COLUMNS}
                rows={usage}
                rowKey={(one) => `${one.requested} ${one.credentialKind} ${one.credentialId}`}
              />
              {more && <Text c="dimmed">There are more rows: these are the first 1,000.</Text>}
            </Stack>
          )
        }
      </Loaded>
    </>
  );
}

const COLUMNS: readonly Column<VersionUsage>[] = [
  {
    title: 'Key or app',
    roomy: true,
    cell: ({ credentialKind, credentialId, credentialState, description }) => (
      <>
        <Group gap={6}>
          <FirstLine>
            {description || (credentialKind === 'partner_app' ? 'Partner app' : 'API key')}
          </FirstLine>
          {credentialState !== '' && (
            <Badge color="gray" variant="light" tt="none">
              Key {credentialState}
            </Badge>
          )}
        </Group>
        <Code>{credentialId}</Code>
      </>
    ),
  },
  {
    title: 'Calls version',
    cell: ({ requested, served, stage }) => (
      <>
        <Group gap={6}>
          <Text span size="sm" style={{ whiteSpace: 'nowrap' }}>
            {requested || 'none named'}
          </Text>
          {/* "Active" would be read as a state of the key. */}
          {stage !== 'active' && <Status state={stage} />}
        </Group>
        {requested !== served && <SecondLine>served by {served}</SecondLine>}
      </>
    ),
  },
  { title: 'Version ends', cell: ({ endsAt }) => <Time at={endsAt} as="day" none={NO_END} /> },
  {
    title: 'Last call',
    roomy: true,
    cell: ({ lastAt, lastOperation }) => (
      <>
        <Time at={lastAt} />
        <SecondLine>
          <LongText text={lastOperation} />
        </SecondLine>
      </>
    ),
  },
  { title: 'Requests', align: 'end', cell: ({ requests }) => numberText(BigInt(requests)) },
];

const NO_END = 'not known yet';

/** Shows for each version how many callers still use it. */
function Callers({ usage }: { readonly usage: readonly VersionUsage[] }) {
  const versions = Map.groupBy(usage, ({ served }) => served);
  return (
    <Bullets
      items={[...versions].map(([served, rows]) => [
        served,
        <>
          <strong>{served}</strong>, which ends on{' '}
          <Time at={rows[0]?.endsAt} as="day" none="a day that is not known yet" />:{' '}
          {count(callersOf(rows), 'key or app calls it', 'keys or apps call it')}
        </>,
      ])}
    />
  );
}

/** How many can still call. */
function callersOf(rows: readonly VersionUsage[]): number {
  return new Set(working(rows).map((one) => `${one.credentialKind} ${one.credentialId}`)).size;
}

function working(rows: readonly VersionUsage[]): VersionUsage[] {
  return rows.filter(({ credentialState }) => credentialState === '');
}

/** The keys and apps that must change before a version ends. */
function Ending({ usage }: { readonly usage: readonly VersionUsage[] }) {
  const ending = working(usage).filter(({ stage }) => stage === 'deprecated' || stage === 'sunset');
  if (ending.length === 0) return null;
  return (
    <Alert
      color="yellow"
      title={`${count(callersOf(ending), 'key or app', 'keys or apps')} must change`}
    >
      They call a version that is deprecated or has ended. After its end, requests are answered in
      the oldest supported version, whose shape may differ.
    </Alert>
  );
}
