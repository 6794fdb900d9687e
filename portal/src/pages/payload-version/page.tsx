import { useQuery } from '@connectrpc/connect-query';
import { Alert, Button, Group, Stack, Text } from '@mantine/core';
import { getRouteApi, Link } from '@tanstack/react-router';
import {
  type GetPayloadVersionResponse,
  type PayloadVersion,
  PayloadVersionService,
} from '../../../../proto/gen/rms/portal/v1/payload_version_pb.ts';
import { WebhooksService } from '../../../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { FirstLine } from '../../parts/cell-lines.tsx';
import { confirm } from '../../parts/confirm.ts';
import { DataTable } from '../../parts/data-table.tsx';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { Meanings } from '../../parts/meanings.tsx';
import { Needs } from '../../parts/needs.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Loaded } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { Time } from '../../parts/time.tsx';
import { useSession } from '../../session/session.tsx';
import { changeOf, olderVersion, otherVersion } from './between.ts';
import { MarkedText } from './marked-text.tsx';
import { SentVersions } from './sent-versions.tsx';

const Compare = lazyPart(async () => (await import('./compare.tsx')).Compare, 6);
const Concerned = lazyPart(async () => (await import('./concerned.tsx')).Concerned, 2);

const route = getRouteApi('/payload-version');

export function PayloadVersionPage() {
  const { getPayloadVersion } = PayloadVersionService.method;
  const query = useQuery(getPayloadVersion, {});
  return (
    <Needs method={getPayloadVersion}>
      <PageHead
        title="Payload version"
        about={
          <>
            What we send to others: all webhooks of your shop send their payloads in this version.
            Calls of others to us are on <Link to="/usage">Who calls which version</Link>.
          </>
        }
      />
      <Meanings of={['Payload', 'Topic', 'Deprecated']} />
      <Loaded query={query}>
        {(setting) => (
          <Stack gap="md">
            <Setting setting={setting} />
            <Effects setting={setting} />
          </Stack>
        )}
      </Loaded>
    </Needs>
  );
}

/**
 * What another version changes: a newer one, or one that the reader chose. After the shop has changed its version, the
 * webhooks that this concerns stay in sight.
 */
function Effects({ setting }: { readonly setting: GetPayloadVersionResponse }) {
  const { can } = useSession();
  const { to, since: former } = route.useSearch();
  const other = otherVersion(setting, to);
  const older = olderVersion(setting);
  const change = changeOf(setting, { former, other });
  // The reader asks what a change that was made has changed.
  const compared = other ?? (to === change?.to ? to : undefined);
  return (
    <>
      {can(WebhooksService.method.listWebhooks) && (
        <SentVersions setting={setting} change={change} />
      )}
      {can(PayloadVersionService.method.previewPayload) &&
        (compared ? (
          <Compare setting={setting} other={compared} />
        ) : (
          older && (
            <route.Link to="." search={{ to: older }}>
              Compare with {older}
            </route.Link>
          )
        ))}
    </>
  );
}

function Setting({ setting }: { readonly setting: GetPayloadVersionResponse }) {
  const { version, servedVersion, versions } = setting;
  return (
    <Panel title={`Your webhooks use ${version}`}>
      <Stack gap="sm">
        {servedVersion !== version && (
          <Alert color="yellow" title={`${version} has ended`}>
            Payloads are sent in {servedVersion}, the oldest version that is supported. Choose a
            version that is active.
          </Alert>
        )}
        <DataTable
          caption="Versions"
          rows={versions}
          rowKey={(one) => one.version}
          columns={[
            {
              title: 'Version',
              short: true,
              cell: (one) => <FirstLine>{one.version}</FirstLine>,
            },
            { title: 'Stage', cell: ({ stage }) => <Status state={stage} /> },
            {
              title: 'Deprecated',
              cell: ({ deprecatedAt }) => <Time at={deprecatedAt} as="day" none="not known yet" />,
            },
            {
              title: 'Ends',
              short: true,
              cell: ({ sunsetAt }) => <Time at={sunsetAt} as="day" none="not known yet" />,
            },
            {
              title: 'What changed',
              cell: ({ about, inWords, changelogPath }) => (
                <Text size="sm" maw={420} component="div">
                  {inWords || 'The first version.'}{' '}
                  {about !== '' && (
                    <Text span size="xs" c="dimmed">
                      <MarkedText text={about} />.
                    </Text>
                  )}{' '}
                  <a href={changelogPath} target="_blank" rel="noreferrer">
                    Changelog
                  </a>
                </Text>
              ),
            },
            { title: 'Your setting', cell: (one) => <Choose of={one} setting={setting} /> },
          ]}
        />
      </Stack>
    </Panel>
  );
}

function Choose(o: { readonly of: PayloadVersion; readonly setting: GetPayloadVersionResponse }) {
  const { can } = useSession();
  const { setPayloadVersion } = PayloadVersionService.method;
  const { version } = o.of;
  const { version: former, servedVersion, versions } = o.setting;
  const navigate = route.useNavigate();
  const { send, isPending } = useWrite(setPayloadVersion, {
    done: `Your webhooks use ${version} from now on.`,
    onSuccess: () =>
      void navigate({ search: { since: servedVersion }, replace: true, resetScroll: false }),
  });
  if (version === former) return <Text size="sm">Used now</Text>;
  if (!o.of.selectable || !can(setPayloadVersion)) return <>–</>;
  const ask = () =>
    confirm({
      title: `Send payloads in ${version}?`,
      text: <Concerned setting={o.setting} version={version} />,
      action: `Use ${version}`,
      onConfirm: () =>
        send(
          { version, expectedVersion: former },
          // A version that has ended cannot be chosen again.
          versions.find((one) => one.version === former)?.selectable
            ? { version: former, expectedVersion: version }
            : undefined,
        ),
    });
  return (
    <Group>
      <Button size="xs" variant="default" loading={isPending} onClick={ask}>
        Use {version}
      </Button>
    </Group>
  );
}
