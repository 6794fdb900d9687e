import { useQuery } from '@connectrpc/connect-query';
import { Badge, Button, Group } from '@mantine/core';
import { type Session, SessionService } from '../../../../proto/gen/rms/portal/v1/session_pb.ts';
import { leave } from '../../api/network.ts';
import { useWrite } from '../../api/use-write.ts';
import { DataTable } from '../../parts/data-table.tsx';
import { confirm } from '../../parts/dialog/confirm.ts';
import { PageHead } from '../../parts/page-head.tsx';
import { RowButton } from '../../parts/row-button.tsx';
import { Loaded } from '../../parts/states.tsx';
import { Time } from '../../parts/time/time.tsx';

/** Where the user is signed in. */
export function SessionsPage() {
  const { listSessions, signOutEverywhere } = SessionService.method;
  const query = useQuery(listSessions, {});
  const everywhere = useWrite(signOutEverywhere, { onSuccess: () => leave() });
  const ask = () =>
    confirm({
      title: 'Sign out everywhere?',
      text: 'All your sessions end, this one too. Connected assistants keep their access.',
      action: 'Sign out everywhere',
      danger: true,
      onConfirm: () => everywhere.send({}),
    });
  return (
    <>
      <PageHead
        title="Your sessions"
        about="Where you are signed in to this portal. End a session that you do not know, and change your password."
        actions={
          <Button variant="default" loading={everywhere.isPending} onClick={ask}>
            Sign out everywhere
          </Button>
        }
      />
      <Loaded query={query} rows={3}>
        {({ sessions }) => (
          <DataTable
            caption="Your sessions"
            rows={sessions}
            rowKey={({ id }) => id}
            columns={[
              { title: 'Device', cell: (session) => <Device session={session} /> },
              { title: 'From', cell: ({ source }) => source || 'unknown' },
              { title: 'Shop', cell: ({ shopName }) => shopName },
              { title: 'Signed in', cell: ({ createdAt }) => <Time at={createdAt} /> },
              {
                title: 'Last used',
                cell: ({ lastUsedAt }) => <Time at={lastUsedAt} as="relative" />,
              },
              { title: 'Ends', cell: ({ expiresAt }) => <Time at={expiresAt} /> },
              { title: 'Actions', cell: (session) => <End session={session} /> },
            ]}
          />
        )}
      </Loaded>
    </>
  );
}

function Device({ session: { device, current } }: { readonly session: Session }) {
  return (
    <Group gap={6}>
      {device || 'Unknown browser'}
      {current && (
        <Badge size="xs" variant="default">
          This one
        </Badge>
      )}
    </Group>
  );
}

function End({ session: { id, current, device } }: { readonly session: Session }) {
  const { send, isPending } = useWrite(SessionService.method.endSession, {
    done: 'The session has ended.',
  });
  if (current) return null;
  const ask = () =>
    confirm({
      title: `End the session of ${device || 'an unknown browser'}?`,
      text: 'That browser is signed out with its next click. What somebody typed there and did not save is lost.',
      action: 'End the session',
      danger: true,
      onConfirm: () => send({ sessionId: id }),
    });
  return (
    <RowButton
      text="End"
      label={`End the session of ${device}`}
      onClick={ask}
      isPending={isPending}
    />
  );
}
