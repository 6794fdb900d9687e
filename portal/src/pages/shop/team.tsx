import { useQuery } from '@connectrpc/connect-query';
import { Badge, Button, Group, NativeSelect, Stack } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import {
  type ListMembersResponse,
  type Member,
  TeamService,
} from '../../../../proto/gen/rms/portal/v1/team_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { FirstLine, SecondLine } from '../../parts/cell-lines.tsx';
import { confirm } from '../../parts/confirm.ts';
import { DataTable } from '../../parts/data-table.tsx';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { LongText } from '../../parts/long-text.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { RowButton } from '../../parts/row-button.tsx';
import { Loaded } from '../../parts/states.tsx';
import { Time } from '../../parts/time.tsx';
import { useSession } from '../../session/session.tsx';
import { roleName } from '../../words.ts';
import { RoleTable } from './role-table.tsx';

const AddMember = lazyPart(async () => (await import('./add-member.tsx')).AddMember);

/** The members for those who manage them, and for everybody what each role may do. */
export function TeamPage() {
  const { can } = useSession();
  const { listMembers, addMember } = TeamService.method;
  const [adding, { open, close }] = useDisclosure(false);
  const mayList = can(listMembers);
  const query = useQuery(listMembers, {}, { enabled: mayList });
  return (
    <>
      <PageHead
        title="Team and roles"
        about="A role says what a person may do here, and what their assistants may do for them."
        actions={can(addMember) && <Button onClick={open}>Add a person</Button>}
      />
      <Stack gap="xl">
        {mayList && (
          <Loaded query={query} rows={4}>
            {(found) => <Members found={found} />}
          </Loaded>
        )}
        <RoleTable />
      </Stack>
      {adding && query.data && <AddMember roles={query.data.assignableRoles} onClose={close} />}
    </>
  );
}

function Members({ found }: { readonly found: ListMembersResponse }) {
  return (
    <DataTable
      caption="Members"
      rows={found.members}
      rowKey={({ userId }) => userId}
      columns={[
        { title: 'Person', roomy: true, cell: (member) => <Person member={member} /> },
        {
          title: 'Role',
          cell: (member) => <RoleOf member={member} roles={found.assignableRoles} />,
        },
        { title: 'Added', cell: ({ createdAt }) => <Time at={createdAt} as="day" /> },
        { title: 'Signed in', cell: (member) => <SignedIn member={member} /> },
        { title: 'Actions', cell: (member) => <Remove member={member} /> },
      ]}
    />
  );
}

function Person({ member: { name, email, self } }: { readonly member: Member }) {
  return (
    <>
      <Group gap={6}>
        <FirstLine>{name || <LongText text={email} />}</FirstLine>
        {self && (
          <Badge size="xs" variant="default">
            You
          </Badge>
        )}
      </Group>
      {name !== '' && (
        <SecondLine>
          <LongText text={email} />
        </SecondLine>
      )}
    </>
  );
}

/** An assistant may call for a person who never opened the portal. */
function SignedIn({ member: { signedIn, assistantUsedAt } }: { readonly member: Member }) {
  return (
    <>
      {signedIn ? 'Yes' : 'Has not signed in to the portal'}
      {assistantUsedAt && (
        <SecondLine>
          an assistant called <Time at={assistantUsedAt} />
        </SecondLine>
      )}
    </>
  );
}

function RoleOf({ member, roles }: { readonly member: Member; readonly roles: readonly string[] }) {
  const { can } = useSession();
  const { changeRole } = TeamService.method;
  const { send, isPending } = useWrite(changeRole, { done: 'The role is changed.' });
  const { userId, role, email, name, editable, self } = member;
  if (!editable || !can(changeRole)) return <>{roleName(role)}</>;
  const who = name || email;
  const ask = (next: string) =>
    confirm({
      title: `Make ${self ? 'yourself' : who} ${roleName(next).toLowerCase()}?`,
      text: self
        ? 'You may lose rights that you need to change this again.'
        : 'The new role counts with the next click or call, also for connected assistants.',
      action: 'Change the role',
      // A person who has given up the own right cannot take that back.
      onConfirm: () => send({ userId, role: next }, self ? undefined : { userId, role }),
    });
  return (
    <NativeSelect
      size="xs"
      miw={130}
      aria-label={`Role of ${who}`}
      value={role}
      disabled={isPending}
      onChange={({ currentTarget }) => ask(currentTarget.value)}
      data={[...new Set([role, ...roles])].map((value) => ({ value, label: roleName(value) }))}
    />
  );
}

function Remove({ member }: { readonly member: Member }) {
  const { can } = useSession();
  const { removeMember } = TeamService.method;
  const { send, isPending } = useWrite(removeMember, { done: 'The person is removed.' });
  const { userId, email, name, editable, self } = member;
  if (!editable || !can(removeMember)) return null;
  const who = name || email;
  const ask = () =>
    confirm({
      title: self ? 'Leave this shop?' : `Remove ${who}?`,
      text: 'Sessions and connected assistants of this person stop working in this shop with the next call. API keys stay. You can add the person again.',
      action: self ? 'Leave the shop' : 'Remove from the team',
      danger: true,
      onConfirm: () => send({ userId }),
    });
  return (
    <RowButton text="Remove" label={`Remove ${who}`} danger onClick={ask} isPending={isPending} />
  );
}
