import { useQuery } from '@connectrpc/connect-query';
import { Link } from '@tanstack/react-router';
import { AssistantsService } from '../../../../proto/gen/rms/portal/v1/assistants_pb.ts';
import type { AuditEntry } from '../../../../proto/gen/rms/portal/v1/audit_pb.ts';
import { placeOf } from './assistant-cells.tsx';

/** The assistant through which something was done, with a link to its connection if the page of assistants has it. */
export function AssistantLink({ entry }: { readonly entry: AuditEntry }) {
  const { listAssistants, listEndedAssistants } = AssistantsService.method;
  const { data: active } = useQuery(listAssistants, { pageSize: 200, cursor: '' });
  const { data: ended } = useQuery(listEndedAssistants, {});
  const { client_id: clientId, app = '' } = detailOf(entry);
  const found = [...(active?.assistants ?? []), ...(ended?.assistants ?? [])].find(
    (one) =>
      one.userId === entry.by?.id && one.clientId === clientId && one.app === app && !one.readOnly,
  );
  if (!found) return <>{entry.through}</>;
  return (
    <Link to="/assistants" hash={placeOf(found.id)}>
      {entry.through}
    </Link>
  );
}

/** The client of the assistant, and its app. Entries of former releases do not have the app. */
function detailOf({ detail }: AuditEntry): { readonly client_id?: string; readonly app?: string } {
  return JSON.parse(detail);
}
