import { useInfiniteQuery } from '@connectrpc/connect-query';
import { Stack, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import {
  type Assistant,
  AssistantsService,
} from '../../../../proto/gen/rms/portal/v1/assistants_pb.ts';
import { PAGES } from '../../api/pages.ts';
import { useWrite } from '../../api/use-write.ts';
import { Bullets } from '../../parts/bullets.tsx';
import { FirstLine, SecondLine } from '../../parts/cell-lines.tsx';
import { confirm } from '../../parts/confirm.ts';
import { Copyable } from '../../parts/copy.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { More } from '../../parts/more.tsx';
import { Needs } from '../../parts/needs.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { Panel } from '../../parts/panel.tsx';
import { RowButton } from '../../parts/row-button.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import { Time } from '../../parts/time.tsx';
import { useSession } from '../../session/session.tsx';
import { roleName } from '../../words.ts';

export function AssistantsPage() {
  const { listAssistants } = AssistantsService.method;
  const pages = useInfiniteQuery(listAssistants, { pageSize: 50, cursor: '' }, PAGES);
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
                <DataTable
                  caption="Connected assistants"
                  columns={COLUMNS}
                  rows={assistants}
                  rowKey={({ id }) => id}
                />
                <More pages={pages} shown="These are all connected assistants." />
              </div>
            );
          }}
        </Loaded>
        <HowToConnect />
      </Stack>
    </Needs>
  );
}

const COLUMNS: readonly Column<Assistant>[] = [
  {
    title: 'Assistant',
    cell: ({ app, clientId }) => <FirstLine>{app || clientId}</FirstLine>,
  },
  {
    title: 'Acts for',
    cell: ({ userName, userEmail, own }) => (
      <>
        {own ? 'You' : userName || userEmail}
        {!own && userName !== '' && <SecondLine>{userEmail}</SecondLine>}
      </>
    ),
  },
  {
    title: 'Rights',
    cell: ({ role, readOnly }) => (
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
    cell: ({ connectedAt, expiresAt }) => (
      <>
        <Time at={connectedAt} as="day" />
        <SecondLine>
          until <Time at={expiresAt} as="day" />
        </SecondLine>
      </>
    ),
  },
  { title: 'Actions', cell: (assistant) => <Disconnect of={assistant} /> },
];

function Disconnect({ of: { id, app, clientId } }: { readonly of: Assistant }) {
  const { can } = useSession();
  const { disconnectAssistant } = AssistantsService.method;
  const { run, isPending } = useWrite(disconnectAssistant, {
    done: 'The assistant is disconnected.',
  });
  if (!can(disconnectAssistant)) return null;
  const name = app || clientId;
  const ask = () =>
    confirm({
      title: `Disconnect ${name}?`,
      text: 'Its next call is rejected. The person can connect it again.',
      action: 'Disconnect',
      danger: true,
      onConfirm: () => run({ assistantId: id }),
    });
  return (
    <RowButton text="Disconnect" label={`Disconnect ${name}`} onClick={ask} isPending={isPending} />
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
