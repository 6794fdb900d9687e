import { timestampMs } from '@bufbuild/protobuf/wkt';
import { useQuery } from '@connectrpc/connect-query';
import { Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { AssistantsService } from '../../../../proto/gen/rms/portal/v1/assistants_pb.ts';
import type { AuditEntry } from '../../../../proto/gen/rms/portal/v1/audit_pb.ts';
import {
  type GetTimelineResponse,
  ReturnsService,
  type TimelineEntry,
} from '../../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { bigIdOr0 } from '../../search.ts';
import { writtenText } from '../returns/timeline.tsx';
import { useWebhookNames } from '../webhooks/use-webhooks.ts';
import { hostOf } from '../webhooks/webhook.ts';

// What an entry of the audit log reads from elsewhere, when it is shown.

/** The kinds of entries in the timeline that have the reason of an action. */
const KINDS: Readonly<Record<string, readonly string[]>> = {
  cancel_return: ['return.cancelled', 'return.cancellation.queued'],
  flag_return: ['return.flagged'],
  unflag_return: ['return.unflagged'],
};

/** How many entries of a timeline are searched. */
const NEWEST = 200;

/** The entries of one action in both logs are written at most this long after each other. Milliseconds. */
const NEAR_MS = 60_000;

/**
 * The reason that somebody gave for an action with a return. It is free text, which may name anybody, so there is one
 * copy of it: in the timeline of the return, and not in the audit log.
 */
export function Reason({ entry }: { readonly entry: AuditEntry }) {
  const { data, error } = useQuery(ReturnsService.method.getTimeline, {
    returnId: bigIdOr0(entry.subject),
    pageSize: NEWEST,
  });
  return (
    <Text size="xs" style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
      {data ? reasonIn(data, entry) : error ? 'The timeline could not be loaded.' : '…'}
    </Text>
  );
}

function reasonIn(timeline: GetTimelineResponse, { act, at, by }: AuditEntry): string {
  const kinds = KINDS[act] ?? [];
  const distance = ({ occurredAt }: TimelineEntry) =>
    occurredAt && at ? Math.abs(timestampMs(occurredAt) - timestampMs(at)) : NEAR_MS;
  const [found] = timeline.entries
    .filter(
      (one) => kinds.includes(one.kind) && one.actor?.id === by?.id && distance(one) < NEAR_MS,
    )
    .toSorted((one, other) => distance(one) - distance(other));
  if (!found) {
    return timeline.nextCursor === ''
      ? 'The timeline of the return does not have it.'
      : `It is not among the newest ${NEWEST} entries of the timeline. The page of the return shows earlier ones.`;
  }
  // The text of a flag is its comment, or its reasons when it has none.
  const texts = new Set([found.facts.reasons ?? '', writtenText(found)]);
  texts.delete('');
  return [...texts].join('\n') || 'No reason was given.';
}

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
    <Link to="/assistants" hash={found.id}>
      {entry.through}
    </Link>
  );
}

/** The client of the assistant, and its app if it has one. */
function detailOf({ detail }: AuditEntry): { readonly client_id?: string; readonly app?: string } {
  return JSON.parse(detail);
}

/**
 * The description that a webhook has today, for a text that ends with its number: `, Warehouse (hooks.example.com)`. The
 * entry of a rejected request has any text as the id.
 */
export function WebhookDescription({ id }: { readonly id: string }) {
  const { description, url } = useWebhookNames()(bigIdOr0(id));
  return description === '' ? null : `, ${description} (${hostOf(url)})`;
}
