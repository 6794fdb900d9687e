import { timestampMs } from '@bufbuild/protobuf/wkt';
import { useQuery } from '@connectrpc/connect-query';
import { Text } from '@mantine/core';
import type { AuditEntry } from '../../../../proto/gen/rms/portal/v1/audit_pb.ts';
import {
  type ListTimelineResponse,
  ReturnsService,
  type TimelineEntry,
} from '../../../../proto/gen/rms/portal/v1/returns_pb.ts';
import { writtenText } from '../returns/timeline.tsx';

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
  const { data, error } = useQuery(ReturnsService.method.listTimeline, {
    returnId: entry.subject,
    pageSize: NEWEST,
    cursor: '',
  });
  return (
    <Text size="xs" style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
      {data ? reasonIn(data, entry) : error ? 'The timeline could not be loaded.' : '…'}
    </Text>
  );
}

function reasonIn(timeline: ListTimelineResponse, { action, at, by }: AuditEntry): string {
  const kinds = KINDS[action.split('.')[1] ?? ''] ?? [];
  const distance = ({ occurredAt }: TimelineEntry) =>
    occurredAt && at ? Math.abs(timestampMs(occurredAt) - timestampMs(at)) : NEAR_MS;
  const [found] = timeline.entries
    .filter((one) => kinds.includes(one.kind) && one.by?.id === by?.id && distance(one) < NEAR_MS)
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
