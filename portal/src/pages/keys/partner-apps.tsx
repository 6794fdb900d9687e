import { useQuery } from '@connectrpc/connect-query';
import { Code, Stack, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import {
  type App,
  AppsService,
  type RemovedApp,
} from '../../../../proto/gen/rms/portal/v1/apps_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { Bullets } from '../../parts/bullets.tsx';
import { SecondLine } from '../../parts/cell-lines.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { confirm } from '../../parts/dialog/confirm.ts';
import { endedByText } from '../../parts/ended-by.ts';
import { Fold } from '../../parts/fold.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { RowButton } from '../../parts/row-button.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { Time } from '../../parts/time/time.tsx';
import { useSession } from '../../session/session.tsx';
import { count } from '../../words.ts';

export function PartnerAppsPage() {
  const query = useQuery(AppsService.method.listApps, {});
  return (
    <>
      <PageHead
        title="Partner apps"
        about="Apps of other companies that you installed. Each does only what is listed here, with tokens of its own."
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
                  { title: 'App', cell: (app) => <Name app={app} /> },
                  { title: 'May', cell: (app) => <Scopes app={app} /> },
                  { title: 'Installed', cell: ({ installedAt }) => <Time at={installedAt} /> },
                  {
                    title: 'Last used',
                    cell: ({ lastUsedAt }) => <Time at={lastUsedAt} none="not in 90 days" />,
                  },
                  { title: 'Actions', cell: (app) => <Actions app={app} /> },
                ]}
              />
            )
          }
        </Loaded>
        <RemovedApps />
      </Stack>
    </>
  );
}

/** The name of an app, and where it is from. */
function Name({ app: { name, clientId, issuer, website } }: { readonly app: App }) {
  return (
    <>
      {name === '' ? <Code>{clientId}</Code> : <Text fw={600}>{name}</Text>}
      {name !== '' && <SecondLine>{clientId}</SecondLine>}
      <SecondLine>{website === '' ? `signs in at ${issuer}` : website}</SecondLine>
    </>
  );
}

/** What an app may do, and what waits for an owner. */
function Scopes({ app: { name, scopes, waitingScopes } }: { readonly app: App }) {
  return (
    <>
      {scopes.length === 0 && (name === '' ? 'what its tokens say' : 'nothing now')}
      {scopes.length > 0 && (
        <Bullets items={scopes.map(({ name: scope, text }) => [scope, text])} />
      )}
      {waitingScopes.length > 0 && (
        <SecondLine>
          waits for an owner: {waitingScopes.map(({ text }) => text).join(' ')}
        </SecondLine>
      )}
    </>
  );
}

function Actions({ app }: { readonly app: App }) {
  return (
    <Stack gap="xs" align="start">
      <Allow app={app} />
      <Remove app={app} />
    </Stack>
  );
}

/** For owners: allows what the app waits for. */
function Allow({ app: { name, clientId, issuer, waitingScopes } }: { readonly app: App }) {
  const { can } = useSession();
  const { allowAppScopes } = AppsService.method;
  const { send, isPending } = useWrite(allowAppScopes, { done: 'The app may do more now.' });
  if (waitingScopes.length === 0 || !can(allowAppScopes)) return null;
  const scopes = waitingScopes.map((scope) => scope.name);
  const ask = () =>
    confirm({
      title: `Allow ${name || clientId} to do more?`,
      text: `It asks for this: ${waitingScopes.map(({ text }) => text).join(' ')} It can do this from its next access token on, until it is removed.`,
      action: 'Allow',
      onConfirm: () => send({ clientId, issuer, scopes }),
    });
  return (
    <RowButton
      text="Allow more"
      label={`Allow more for ${clientId}`}
      onClick={ask}
      isPending={isPending}
    />
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

function Remove({ app: { name, clientId, issuer } }: { readonly app: App }) {
  const { can } = useSession();
  const { removeApp } = AppsService.method;
  const { send, isPending } = useWrite(removeApp, { done: 'The app is removed.' });
  if (!can(removeApp)) return null;
  const ask = () =>
    confirm({
      title: `Remove ${name || clientId}?`,
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
