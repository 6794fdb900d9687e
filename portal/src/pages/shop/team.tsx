import { useQuery } from '@connectrpc/connect-query';
import { Badge, Box, Button, Group, NativeSelect, Stack } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { Fragment, useState } from 'react';
import {
  type ListMembersResponse,
  type ListRolesResponse,
  type Member,
  type RoleAction,
  TeamService,
} from '../../../../proto/gen/rms/portal/v1/team_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { FirstLine, SecondLine } from '../../parts/cell-lines.tsx';
import { DataTable } from '../../parts/data-table.tsx';
import { confirm } from '../../parts/dialog/confirm.ts';
import { Facts } from '../../parts/facts.tsx';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { Meanings } from '../../parts/meanings.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { Panel } from '../../parts/panel.tsx';
import { RowButton } from '../../parts/row-button.tsx';
import { Loaded } from '../../parts/states.tsx';
import { LongText } from '../../parts/text/long-text.tsx';
import { Time } from '../../parts/time/time.tsx';
import { useSession } from '../../session/session.tsx';
import { roleName } from '../../words.ts';
import styles from './team.module.css';

const Invite = lazyPart(async () => (await import('./invite.tsx')).Invite);
const Invitations = lazyPart(async () => (await import('./invitations.tsx')).Invitations, 3);

/** The members for those who manage them, and for everybody what each role may do. */
export function TeamPage() {
  const { can } = useSession();
  const { listMembers, listInvitations, inviteMember } = TeamService.method;
  const [inviting, { open, close }] = useDisclosure(false);
  const mayList = can(listMembers);
  const query = useQuery(listMembers, {}, { enabled: mayList });
  return (
    <>
      <PageHead
        title="Team and roles"
        about="A role says what a person may do here, and what their assistants may do for them."
        actions={can(inviteMember) && <Button onClick={open}>Invite a person</Button>}
      />
      <Stack gap="xl">
        {mayList && (
          <Loaded query={query} rows={4}>
            {(found) => <Members found={found} />}
          </Loaded>
        )}
        {can(listInvitations) && <Invitations />}
        <RoleTable />
      </Stack>
      {inviting && query.data && <Invite roles={query.data.assignableRoles} onClose={close} />}
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
        {
          title: 'Actions',
          cell: (member) => (
            <Group gap={6}>
              <EndAccess member={member} />
              <Remove member={member} />
            </Group>
          ),
        },
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
      onConfirm: () =>
        send(
          { userId, role: next, expectedRole: role },
          // A person who has given up the own right cannot take that back.
          self ? undefined : { userId, role, expectedRole: next },
        ),
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

/** For a lost device, or a session that somebody else has. */
function EndAccess({ member }: { readonly member: Member }) {
  const { can } = useSession();
  const { endMemberAccess } = TeamService.method;
  const { send, isPending } = useWrite(endMemberAccess, { done: 'The access has ended.' });
  const { userId, email, name, editable, self } = member;
  // A person ends the own sessions on the page of sessions.
  if (!editable || self || !can(endMemberAccess)) return null;
  const who = name || email;
  const ask = () =>
    confirm({
      title: `Sign ${who} out everywhere?`,
      text: `Sessions, connected assistants and apps of this person stop working in this shop with the next call. The person stays a member. ${keysOf(member)}`,
      action: 'End the access',
      danger: true,
      onConfirm: () => send({ userId }),
    });
  return (
    <RowButton text="Sign out" label={`Sign out ${who}`} onClick={ask} isPending={isPending} />
  );
}

/** Keys belong to the shop. */
function keysOf({ keys }: Member): string {
  return keys.length === 0 ? '' : `API keys of this person stay valid: ${keys.join(', ')}.`;
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
      text: `Sessions, connected assistants and apps of this person stop working in this shop with the next call. ${keysOf(member)} You can invite the person again.`,
      action: self ? 'Leave the shop' : 'Remove from the team',
      danger: true,
      onConfirm: () => send({ userId }),
    });
  return (
    <RowButton text="Remove" label={`Remove ${who}`} danger onClick={ask} isPending={isPending} />
  );
}

/** Narrower pages are those of phones. CSS pixels. */
const PHONE_PX = 640;

/** What each role may do, and by which ways: in the portal, by the REST API, and by an assistant. */
function RoleTable() {
  const query = useQuery(TeamService.method.listRoles, {}, { staleTime: Infinity });
  return (
    <Panel
      title="What each role may do"
      about={
        <>
          The last column says by which way it can be done.
          <Meanings of={['REST', 'MCP', 'Scope']} />
        </>
      }
    >
      <Loaded query={query} rows={12}>
        {(found) => <Body found={found} />}
      </Loaded>
    </Panel>
  );
}

function Body({ found }: { readonly found: ListRolesResponse }) {
  const { shop } = useSession();
  // A phone has room for one role: at first the reader's own.
  const [only, setOnly] = useState(() => (window.innerWidth < PHONE_PX ? shop.role : ''));
  const frame = only === '' ? styles.scroll : `${styles.scroll} ${styles.fits}`;
  const roles = found.roles.filter(({ name }) => only === '' || name === only);
  const groups = [...new Set(found.actions.map(({ group }) => group))];
  return (
    <Stack gap="md">
      <NativeSelect
        label="Show"
        maw="18rem"
        value={only}
        onChange={({ currentTarget }) => setOnly(currentTarget.value)}
        data={[
          { value: '', label: 'All roles' },
          ...found.roles.map(({ name }) => ({ value: name, label: roleName(name) })),
        ]}
      />
      <Box maw="48rem">
        <Facts rows={roles.map(({ name, description }) => [roleName(name), description])} />
      </Box>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard must be able to scroll it. */}
      <section className={frame} tabIndex={0} aria-label="Table of roles">
        <table className={styles.table}>
          <thead>
            <tr>
              <th scope="col" className={styles.first}>
                Action
              </th>
              {roles.map(({ name }) => (
                <th key={name} scope="col" className={styles.middle}>
                  {roleName(name)}
                  {name === shop.role && <SecondLine>you</SecondLine>}
                </th>
              ))}
              <th scope="col">By</th>
            </tr>
          </thead>
          <tbody>
            {groups.map((group) => (
              <Fragment key={group}>
                <tr>
                  <th scope="rowgroup" colSpan={roles.length + 2} className={styles.group}>
                    {group}
                  </th>
                </tr>
                {found.actions
                  .filter((action) => action.group === group)
                  .map((action) => (
                    <Row
                      key={action.description}
                      action={action}
                      roles={roles.map(({ name }) => name)}
                    />
                  ))}
              </Fragment>
            ))}
          </tbody>
        </table>
      </section>
    </Stack>
  );
}

function Row({
  action,
  roles,
}: {
  readonly action: RoleAction;
  readonly roles: readonly string[];
}) {
  const { description, portal, rest, mcp, scope } = action;
  const restTitle = scope === '' ? rest.join(', ') : `${rest.join(', ')}: scope ${scope}`;
  return (
    <tr>
      <th scope="row" className={styles.first}>
        {description}
      </th>
      {roles.map((role) => {
        const may = action.roles.includes(role);
        return (
          <td key={role} className={styles.middle}>
            <span aria-hidden className={may ? styles.yes : styles.no}>
              {may ? '✓' : '–'}
            </span>
            <span className="visually-hidden">{may ? 'yes' : 'no'}</span>
          </td>
        );
      })}
      <td className={styles.ways}>
        {portal.length > 0 && <span>Portal</span>}
        {rest.length > 0 && <span title={restTitle}>REST</span>}
        {mcp.length > 0 && <span title={mcp.join(', ')}>MCP</span>}
      </td>
    </tr>
  );
}
