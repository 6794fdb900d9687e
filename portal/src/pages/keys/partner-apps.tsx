import { useQuery } from '@connectrpc/connect-query';
import { Code, Stack, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import {
  type App,
  AppsService,
  type RemovedApp,
} from '../../../../proto/gen/rms/portal/v1/apps_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { SecondLine } from '../../parts/cell-lines.tsx';
import { confirm } from '../../parts/confirm.ts';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { endedByText } from '../../parts/ended-by.ts';
import { Fold } from '../../parts/fold.tsx';
import { Needs } from '../../parts/needs.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { RowButton } from '../../parts/row-button.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { Time } from '../../parts/time.tsx';
import { useSession } from '../../session/session.tsx';
import { count } from '../../words.ts';

export function PartnerAppsPage() {
  const { listApps } = AppsService.method;
  const query = useQuery(listApps, {});
  return (
    <Needs method={listApps}>
      <PageHead
        title="Partner apps"
        about="Apps of other companies that you installed. They manage your webhooks, or make labels, with tokens of their own."
      />
      <Stack gap="md">
        <Loaded query={query} rows={3}>
          {({ apps }) =>
            apps.length === 0 ? (
              <EmptyState title="No app is installed">
                An app asks you to install it when you connect it to your shop. A partner without an
                app needs an <Link to="/api-keys">API key</Link>.
              </EmptyState>
            ) : (
              <DataTable
                caption="Partner apps"
                rows={apps}
                rowKey={({ issuer, clientId }) => `${issuer} ${clientId}`}
                columns={[
                  ...COLUMNS,
                  { title: 'Installed', cell: ({ installedAt }) => <Time at={installedAt} /> },
                  { title: 'Actions', cell: (app) => <Remove app={app} /> },
                ]}
              />
            )
          }
        </Loaded>
        <RemovedApps />
      </Stack>
    </Needs>
  );
}

const COLUMNS: readonly Column<Pick<App, 'clientId' | 'issuer'>>[] = [
  { title: 'App', cell: ({ clientId }) => <Code>{clientId}</Code> },
  { title: 'Signs in at', cell: ({ issuer }) => issuer },
];

/** The apps that were removed, folded, because few readers look for them. */
function RemovedApps() {
  const query = useQuery(AppsService.method.listRemovedApps, {});
  return (
    <Loaded query={query} rows={1}>
      {({ apps, more }) =>
        apps.length > 0 && (
          <Fold title={`${count(apps.length, 'app')} removed`}>
            <DataTable
              caption="Removed apps"
              rows={apps}
              rowKey={({ id }) => id}
              columns={[
                ...COLUMNS,
                {
                  title: 'Installed',
                  cell: ({ installedAt }) => <Time at={installedAt} none="not known" />,
                },
                { title: 'Removed', cell: (app) => <End of={app} /> },
              ]}
            />
            <Text size="sm" c="dimmed" mt="xs">
              {more
                ? `These are the ${apps.length} that were removed last.`
                : 'These are all of the last 13 months.'}
            </Text>
          </Fold>
        )
      }
    </Loaded>
  );
}

function End({ of: { removedAt, removedBy } }: { readonly of: RemovedApp }) {
  const { user } = useSession();
  return (
    <>
      <Time at={removedAt} />
      <SecondLine>by {endedByText(removedBy, user.id)}</SecondLine>
    </>
  );
}

function Remove({ app: { clientId, issuer } }: { readonly app: App }) {
  const { can } = useSession();
  const { removeApp } = AppsService.method;
  const { send, isPending } = useWrite(removeApp, { done: 'The app is removed.' });
  if (!can(removeApp)) return null;
  const ask = () =>
    confirm({
      title: `Remove ${clientId}?`,
      text: 'Within 5 seconds its tokens stop working in your shop. What it has set up, such as webhooks, stays. You can install it again from the app.',
      action: 'Remove the app',
      danger: true,
      onConfirm: () => send({ clientId, issuer }),
    });
  return (
    <RowButton
      text="Remove"
      label={`Remove ${clientId}`}
      danger
      onClick={ask}
      isPending={isPending}
    />
  );
}
