import { useQuery } from '@connectrpc/connect-query';
import { Button, Code, Group, Stack, Text } from '@mantine/core';
import { getRouteApi, Link } from '@tanstack/react-router';
import { Fragment } from 'react';
import {
  type GetPayloadVersionResponse,
  PayloadsService,
  type PayloadVersion,
} from '../../../../proto/gen/rms/portal/v1/payloads_pb.ts';
import { WebhooksService } from '../../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { FirstLine } from '../../parts/cell-lines.tsx';
import { DataTable } from '../../parts/data-table.tsx';
import { confirm } from '../../parts/dialog/confirm.ts';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { Meanings } from '../../parts/meanings.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Loaded } from '../../parts/states.tsx';
import { Status } from '../../parts/status.tsx';
import { Time } from '../../parts/time/time.tsx';
import { useSession } from '../../session/session.tsx';
import { changeOf, olderVersion, otherVersion } from './changes.ts';

const SentVersions = lazyPart(async () => (await import('./sent-versions.tsx')).SentVersions, 3);
const Compare = lazyPart(async () => (await import('./compare.tsx')).Compare, 6);
const Concerned = lazyPart(async () => (await import('./concerned.tsx')).Concerned, 2);

const route = getRouteApi('/payload-version');

export function PayloadVersionPage() {
  const { getPayloadVersion } = PayloadsService.method;
  const query = useQuery(getPayloadVersion, {});
  return (
    <>
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
    </>
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
      {can(WebhooksService.method.listSubscriptions) && (
        <SentVersions setting={setting} change={change} />
      )}
      {can(PayloadsService.method.previewPayload) &&
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
  const { version, versions } = setting;
  return (
    <Panel title={`Your webhooks use ${version}`}>
      <Stack gap="sm">
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

/** A sentence whose names of fields are in backticks. */
function MarkedText({ text }: { readonly text: string }) {
  return text.split('`').map((part, place) =>
    place % 2 === 1 ? (
      // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text never move.
      <Code key={place}>{part}</Code>
    ) : (
      // biome-ignore lint/suspicious/noArrayIndexKey: as above.
      <Fragment key={place}>{part}</Fragment>
    ),
  );
}

function Choose(o: { readonly of: PayloadVersion; readonly setting: GetPayloadVersionResponse }) {
  const { can } = useSession();
  const { setPayloadVersion } = WebhooksService.method;
  const { version } = o.of;
  const { version: former, versions } = o.setting;
  const navigate = route.useNavigate();
  const { send, isPending } = useWrite(setPayloadVersion, {
    done: `Your webhooks use ${version} from now on.`,
    onSuccess: () =>
      void navigate({ search: { since: former }, replace: true, resetScroll: false }),
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
