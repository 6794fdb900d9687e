import { useQuery } from '@connectrpc/connect-query';
import { Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import {
  AssistantsService,
  type EndedAssistant,
} from '../../../../proto/gen/rms/portal/v1/assistants_pb.ts';
import { AuditService } from '../../../../proto/gen/rms/portal/v1/audit_pb.ts';
import { SecondLine } from '../../parts/cell-lines.tsx';
import { type Column, DataTable } from '../../parts/data-table.tsx';
import { endedByText } from '../../parts/ended-by.ts';
import { Fold } from '../../parts/fold.tsx';
import { Loaded } from '../../parts/states.tsx';
import { Time } from '../../parts/time.tsx';
import { useSession } from '../../session/session.tsx';
import { numberText } from '../../words.ts';
import { AppName, Member } from './assistant-cells.tsx';

/** The assistants whose access has ended, folded, because few readers look for them. */
export function EndedAssistants() {
  const { can } = useSession();
  const query = useQuery(AssistantsService.method.listEndedAssistants, {});
  return (
    <Loaded query={query} rows={1}>
      {({ assistants, more }) =>
        assistants.length > 0 && (
          <Fold title={`${numberText(assistants.length)} whose access has ended`}>
            <DataTable
              caption="Assistants whose access has ended"
              columns={COLUMNS}
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

const COLUMNS: readonly Column<EndedAssistant>[] = [
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
