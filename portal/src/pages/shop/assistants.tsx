import { type Timestamp, timestampMs } from '@bufbuild/protobuf/wkt';
import { useInfiniteQuery, useQuery } from '@connectrpc/connect-query';
import { Stack, Text } from '@mantine/core';
import { Link, useLocation } from '@tanstack/react-router';
import { useEffect, useRef } from 'react';
import {
  type Assistant,
  AssistantsService,
  type EndedAssistant,
} from '../../../../proto/gen/rms/portal/v1/assistants_pb.ts';
import { AuditService } from '../../../../proto/gen/rms/portal/v1/audit_pb.ts';
import { throwUnlessGone } from '../../api/errors.ts';
import { PAGES } from '../../api/pages.ts';
import { useWrite } from '../../api/use-write.ts';
import { Bullets } from '../../parts/bullets.tsx';
import { FirstLine, SecondLine } from '../../parts/cell-lines.tsx';
import { Copyable } from '../../parts/copy.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { confirm } from '../../parts/dialog/confirm.ts';
import { endedByText } from '../../parts/ended-by.ts';
import { Fold } from '../../parts/fold.tsx';
import { More } from '../../parts/more.tsx';
import { notifyDone } from '../../parts/notify.ts';
import { PageHead } from '../../parts/page-head.tsx';
import { Panel } from '../../parts/panel.tsx';
import { RowButton } from '../../parts/row-button.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { LongText } from '../../parts/text/long-text.tsx';
import { Time } from '../../parts/time/time.tsx';
import { useSession } from '../../session/session.tsx';
import { count, numberText, roleName } from '../../words.ts';

export function AssistantsPage() {
  const pages = useInfiniteQuery(
    AssistantsService.method.listAssistants,
    { pageSize: 200, cursor: '' },
    PAGES,
  );
  return (
    <>
      <PageHead
        title="Connected assistants"
        about="AI assistants that act for a person of your team. An assistant may do what that person may do, and nothing else."
      />
      <Stack gap="md">
        <Loaded query={pages} rows={3}>
          {(data) => {
            const assistants = data.pages.flatMap((page) => page.assistants);
            return assistants.length === 0 ? (
              <EmptyState title="No assistant is connected">
                Connect one with the steps below. It takes a minute.
              </EmptyState>
            ) : (
              <div>
                <Assistants of={grouped(assistants)} />
                <More pages={pages} shown="These are all connected assistants." />
              </div>
            );
          }}
        </Loaded>
        <EndedAssistants />
        <HowToConnect />
      </Stack>
    </>
  );
}

/** The connections of one app for one person, with the same rights. */
interface Connections {
  readonly key: string;
  readonly newest: Assistant;
  readonly ids: readonly string[];
  readonly lastUsedAt: Timestamp | undefined;
}

/** @param assistants newest first, and so is the result. */
function grouped(assistants: readonly Assistant[]): Connections[] {
  const groups = new Map<string, Connections>();
  for (const one of assistants) {
    const key = JSON.stringify([one.userId, one.clientId, one.app, one.readOnly]);
    const { newest = one, ids = [], lastUsedAt } = groups.get(key) ?? {};
    const last = later(lastUsedAt, one.lastUsedAt);
    groups.set(key, { key, newest, ids: [...ids, one.id], lastUsedAt: last });
  }
  return [...groups.values()];
}

function later(a: Timestamp | undefined, b: Timestamp | undefined): Timestamp | undefined {
  return a && (!b || timestampMs(a) > timestampMs(b)) ? a : b;
}

/** Those that never called are folded, unless all are. */
function Assistants({ of }: { readonly of: readonly Connections[] }) {
  const used = of.filter(({ lastUsedAt }) => lastUsedAt);
  const others = of.filter(({ lastUsedAt }) => !lastUsedAt);
  const table = (caption: string, rows: readonly Connections[]) => (
    <DataTable caption={caption} columns={COLUMNS} rows={rows} rowKey={({ key }) => key} />
  );
  return (
    <Stack gap="md">
      {used.length > 0 && table('Connected assistants', used)}
      {others.length > 0 && (
        <Fold title={`${numberText(others.length)} that never called`} open={used.length === 0}>
          {table('Assistants that never called', others)}
        </Fold>
      )}
    </Stack>
  );
}

const COLUMNS: readonly Column<Connections>[] = [
  {
    title: 'Assistant',
    roomy: true,
    cell: ({ newest, ids }) => (
      <>
        <AppName of={newest} ids={ids} />
        {ids.length > 1 && <SecondLine>{count(ids.length, 'connection')}</SecondLine>}
      </>
    ),
  },
  { title: 'Acts for', roomy: true, cell: ({ newest }) => <Member of={newest} /> },
  {
    title: 'Rights',
    cell: ({ newest: { role, readOnly } }) => (
      <>
        {roleName(role)}
        {readOnly && ', reading only'}
        <Text size="xs">
          <Link to="/team">What it may do</Link>
        </Text>
      </>
    ),
  },
  { title: 'Last call', cell: ({ lastUsedAt }) => <Time at={lastUsedAt} none="never" /> },
  {
    title: 'Connected',
    cell: ({ newest: { connectedAt, expiresAt } }) => (
      <>
        <Time at={connectedAt} as="day" />
        <SecondLine>
          until <Time at={expiresAt} as="day" />
        </SecondLine>
      </>
    ),
  },
  { title: 'Actions', cell: (connections) => <Disconnect of={connections} /> },
];

/**
 * The app of an assistant. A link with the id of one of its connections leads here, and opens the fold around it.
 *
 * @param o.ids its connections.
 */
function AppName({
  of: { app, clientId, selfName = '' },
  ids,
}: {
  readonly of: { readonly app: string; readonly clientId: string; readonly selfName?: string };
  readonly ids: readonly string[];
}) {
  const hash = useLocation({ select: (location) => location.hash });
  const isAsked = ids.includes(hash);
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!isAsked || !place.current) return;
    const fold = place.current.closest('details');
    if (fold) fold.open = true;
    place.current.focus();
  }, [isAsked]);
  return (
    <div ref={place} {...(isAsked && ASKED)}>
      <FirstLine>
        <LongText text={app || clientId} />
      </FirstLine>
      {app === '' && <SecondLine>its app is unknown</SecondLine>}
      {selfName !== '' && <SecondLine>calls itself “{selfName}”</SecondLine>}
    </div>
  );
}

/** Marks what a link leads to. */
const ASKED = {
  tabIndex: -1,
  style: { outline: '2px solid var(--mantine-primary-color-filled)', outlineOffset: 4 },
} as const;

/** The person for whom an assistant acts. */
function Member({
  of: { userName, userEmail, own },
}: {
  readonly of: { readonly userName: string; readonly userEmail: string; readonly own: boolean };
}) {
  return (
    <>
      {own ? 'You' : userName || <LongText text={userEmail} />}
      {!own && userName !== '' && (
        <SecondLine>
          <LongText text={userEmail} />
        </SecondLine>
      )}
    </>
  );
}

function Disconnect({ of: { newest, ids } }: { readonly of: Connections }) {
  const { can } = useSession();
  const { disconnectAssistant } = AssistantsService.method;
  const { send, isPending } = useWrite(disconnectAssistant, {});
  if (!can(disconnectAssistant)) return null;
  const { app, clientId, own, userName, userEmail } = newest;
  const name = `${app || clientId} ${own ? '(yours)' : `of ${userName || userEmail}`}`;
  const run = async () => {
    // One that has expired in the meantime does not keep the others connected.
    for (const assistantId of ids) await send({ assistantId }).catch(throwUnlessGone);
    notifyDone('The assistant is disconnected.');
  };
  const ask = () =>
    confirm({
      title: `Disconnect ${name}?`,
      text: `${ids.length > 1 ? `All ${ids.length} connections end. ` : ''}Its next call is rejected. The person can connect it again.`,
      action: 'Disconnect',
      danger: true,
      onConfirm: run,
    });
  return (
    <RowButton
      text="Disconnect"
      label={`Disconnect ${name}`}
      danger
      onClick={ask}
      isPending={isPending}
    />
  );
}

/** The assistants whose access has ended, folded, because few readers look for them. */
function EndedAssistants() {
  const { can } = useSession();
  const query = useQuery(AssistantsService.method.listEndedAssistants, {});
  return (
    <Loaded query={query} rows={1}>
      {({ assistants, more }) =>
        assistants.length > 0 && (
          <Fold title={`${numberText(assistants.length)} whose access has ended`}>
            <DataTable
              caption="Assistants whose access has ended"
              columns={ENDED_COLUMNS}
              rows={assistants}
              rowKey={({ id }) => id}
            />
            <Text size="sm" c="dimmed" mt="xs">
              {more
                ? `These are the ${assistants.length} that ended last.`
                : 'These are all of the last 13 months.'}{' '}
              {can(AuditService.method.listAuditEntries) && (
                <Link to="/audit-log" search={{ action: 'assistant.*' }}>
                  Show all in the audit log
                </Link>
              )}
            </Text>
          </Fold>
        )
      }
    </Loaded>
  );
}

const ENDED_COLUMNS: readonly Column<EndedAssistant>[] = [
  { title: 'Assistant', roomy: true, cell: (one) => <AppName of={one} ids={[one.id]} /> },
  {
    title: 'Acted for',
    roomy: true,
    cell: (one) => (
      <>
        <Member of={one} />
        {one.readOnly && <SecondLine>reading only</SecondLine>}
      </>
    ),
  },
  {
    title: 'Connected',
    cell: ({ connectedAt }) => <Time at={connectedAt} as="day" none="not known" />,
  },
  { title: 'Ended', roomy: true, cell: (one) => <End of={one} /> },
];

/** When it ended, and how. The time of an expiry is not recorded. */
function End({ of: one }: { readonly of: EndedAssistant }) {
  const { user } = useSession();
  const how = HOW[one.reason];
  return (
    <>
      <Time at={one.endedAt} none="Expired" />
      {how && <SecondLine>{how(endedByText(one.endedBy, user.id))}</SecondLine>}
    </>
  );
}

/** How an access ended, by its reason. @param by who ended it. */
const HOW: Readonly<Record<string, (by: string) => string>> = {
  revoked: (by) => `disconnected by ${by}`,
  token_revoked: () => 'disconnected in the assistant',
  member_removed: (by) => `removed from the team by ${by}`,
  account_unlinked: (by) => `the sign-in was unlinked by ${by}`,
  token_reused: () => 'ended by the service: a token was used twice',
  expired: () => 'it was not used for 30 days, or its last day was over',
};

const STEPS = [
  ['add', 'In your assistant, add a connector (also called MCP server) with this address.'],
  ['sign in', 'Sign in with the address that you use here, and choose your shop.'],
  [
    'allow',
    'Read what the assistant may do, and allow it. Then ask it, for example, for the returns that need a review.',
  ],
] as const;

function HowToConnect() {
  const { links } = useSession();
  return (
    <Panel title="Connect an assistant">
      <Stack gap="sm">
        <Text size="sm">
          Claude, ChatGPT, Cursor, VS Code and other clients of the Model Context Protocol work with
          this address:
        </Text>
        <Copyable value={links?.mcpUrl ?? ''} label="the address for assistants" />
        <Bullets steps items={STEPS} />
      </Stack>
    </Panel>
  );
}
