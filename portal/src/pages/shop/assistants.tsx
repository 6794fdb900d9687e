import { type Timestamp, timestampMs } from '@bufbuild/protobuf/wkt';
import { useInfiniteQuery } from '@connectrpc/connect-query';
import { Stack, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import {
  type Assistant,
  AssistantsService,
} from '../../../../proto/gen/rms/portal/v1/assistants_pb.ts';
import { throwUnlessGone } from '../../api/errors.ts';
import { PAGES } from '../../api/pages.ts';
import { useWrite } from '../../api/use-write.ts';
import { Bullets } from '../../parts/bullets.tsx';
import { SecondLine } from '../../parts/cell-lines.tsx';
import { confirm } from '../../parts/confirm.ts';
import { Copyable } from '../../parts/copy.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { Fold } from '../../parts/fold.tsx';
import { More } from '../../parts/more.tsx';
import { Needs } from '../../parts/needs.tsx';
import { notifyDone } from '../../parts/notify.ts';
import { PageHead } from '../../parts/page-head.tsx';
import { Panel } from '../../parts/panel.tsx';
import { RowButton } from '../../parts/row-button.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { Time } from '../../parts/time.tsx';
import { useSession } from '../../session/session.tsx';
import { count, numberText, roleName } from '../../words.ts';
import { AppName, Member } from './assistant-cells.tsx';
import { EndedAssistants } from './ended-assistants.tsx';

export function AssistantsPage() {
  const { listAssistants } = AssistantsService.method;
  const pages = useInfiniteQuery(listAssistants, { pageSize: 200, cursor: '' }, PAGES);
  return (
    <Needs method={listAssistants}>
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
    </Needs>
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
