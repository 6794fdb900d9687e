import { useQuery } from '@connectrpc/connect-query';
import { Group } from '@mantine/core';
import { useState } from 'react';
import { type Invitation, TeamService } from '../../../../proto/gen/rms/portal/v1/team_pb.ts';
import { useWrite } from '../../api/use-write.ts';
import { FirstLine, SecondLine } from '../../parts/cell-lines.tsx';
import { DataTable } from '../../parts/data-table.tsx';
import { confirm } from '../../parts/dialog/confirm.ts';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { Panel } from '../../parts/panel.tsx';
import { RowButton } from '../../parts/row-button.tsx';
import { Loaded } from '../../parts/states.tsx';
import { LongText } from '../../parts/text/long-text.tsx';
import { Time } from '../../parts/time/time.tsx';
import { useSession } from '../../session/session.tsx';
import { roleName } from '../../words.ts';

const Invited = lazyPart(async () => (await import('./invite.tsx')).Invited);

/** Who is invited and has not accepted. Nothing when nobody is. */
export function Invitations() {
  const query = useQuery(TeamService.method.listInvitations, {});
  // Not in the row: a new link has a new row.
  const [made, setMade] = useState<NewLink>();
  if (query.data?.invitations.length === 0) return null;
  return (
    <Panel
      title="Invitations"
      about="These people are no members yet. A link works once, and for seven days."
    >
      <Loaded query={query} rows={2}>
        {({ invitations }) => (
          <DataTable
            caption="Invitations"
            rows={invitations}
            rowKey={({ id }) => id}
            columns={[
              { title: 'Person', roomy: true, cell: (one) => <Person invitation={one} /> },
              { title: 'Role', cell: ({ role }) => roleName(role) },
              { title: 'Mail', cell: ({ mail }) => MAIL_TEXTS[mail] ?? mail },
              { title: 'Link', cell: (one) => <LinkState invitation={one} /> },
              { title: 'Actions', cell: (one) => <Actions invitation={one} onMade={setMade} /> },
            ]}
          />
        )}
      </Loaded>
      {made && <Invited {...made} onClose={() => setMade(undefined)} />}
    </Panel>
  );
}

/** A link that no mail brings. */
interface NewLink {
  readonly email: string;
  readonly link: string;
}

/** What became of the mail, in words. */
const MAIL_TEXTS: Readonly<Record<string, string>> = {
  '': 'None: the link was copied',
  waiting: 'Waits to be sent',
  sent: 'Sent',
  failed: 'Not sent: the mail server did not take it',
  unknown: 'Perhaps sent: the mail server did not answer',
};

function Person({ invitation }: { readonly invitation: Invitation }) {
  const { name, email, invitedBy } = invitation;
  return (
    <>
      <FirstLine>{name || <LongText text={email} />}</FirstLine>
      {name !== '' && (
        <SecondLine>
          <LongText text={email} />
        </SecondLine>
      )}
      <SecondLine>
        invited by <LongText text={invitedBy} />
      </SecondLine>
    </>
  );
}

function LinkState({ invitation: { state, expiresAt } }: { readonly invitation: Invitation }) {
  if (state === 'unbacked') return <>Does not work: the inviting person may no longer invite</>;
  return (
    <>
      {state === 'expired' ? 'Expired' : 'Works until'} <Time at={expiresAt} />
    </>
  );
}

function Actions(o: { readonly invitation: Invitation; readonly onMade: (made: NewLink) => void }) {
  const { can } = useSession();
  const { resendInvitation, withdrawInvitation } = TeamService.method;
  const { id: invitationId, email, editable } = o.invitation;
  const resend = useWrite(resendInvitation, {
    done: 'There is a new link.',
    onSuccess: ({ link }) => link !== '' && o.onMade({ email, link }),
  });
  const withdraw = useWrite(withdrawInvitation, { done: 'The invitation is withdrawn.' });
  if (!editable) return null;
  const askResend = () =>
    confirm({
      title: `Invite ${email} with a new link?`,
      text: 'The earlier link stops working at once. The new one works for seven days.',
      action: 'Make a new link',
      onConfirm: () => resend.send({ invitationId }),
    });
  const askWithdraw = () =>
    confirm({
      title: `Withdraw the invitation of ${email}?`,
      text: 'Its link stops working at once. You can invite the person again.',
      action: 'Withdraw the invitation',
      danger: true,
      onConfirm: () => withdraw.send({ invitationId }),
    });
  return (
    <Group gap="xs">
      {can(resendInvitation) && (
        <RowButton
          text="New link"
          label={`New link for ${email}`}
          onClick={askResend}
          isPending={resend.isPending}
        />
      )}
      {can(withdrawInvitation) && (
        <RowButton
          text="Withdraw"
          label={`Withdraw the invitation of ${email}`}
          danger
          onClick={askWithdraw}
          isPending={withdraw.isPending}
        />
      )}
    </Group>
  );
}
