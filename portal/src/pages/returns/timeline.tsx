import { useInfiniteQuery } from '@connectrpc/connect-query';
import { Stack, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import type { Return } from '../../../../proto/gen/rms/portal/v1/return_pb.ts';
import {
  ReturnsService,
  type TimelineEntry,
} from '../../../../proto/gen/rms/portal/v1/returns_pb.ts';
import { pagesEvery } from '../../api/pages.ts';
import { SecondLine } from '../../parts/cell-lines.tsx';
import { More } from '../../parts/more.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Loaded } from '../../parts/states.tsx';
import { Time } from '../../parts/time.tsx';
import { useSession } from '../../session/session.tsx';
import { inWords } from '../../words.ts';
import { byText } from './by-text.ts';
import styles from './timeline.module.css';

/** The timeline, newest first. Read again when the return has changed. */
export function useTimeline(about: Return) {
  return useInfiniteQuery(
    ReturnsService.method.listTimeline,
    { returnId: about.summary?.id ?? '0', pageSize: 20, cursor: '' },
    pagesEvery(10_000),
  );
}

/** The place of the timeline in the page, for links to it. */
export const TIMELINE_ID = 'timeline';

/** What happened to the return. */
export function Timeline({ about }: { readonly about: Return }) {
  const pages = useTimeline(about);
  return (
    <div id={TIMELINE_ID}>
      <Panel title="Timeline" actions={<AuditLink returnId={about.summary?.id ?? '0'} />}>
        <Loaded query={pages} rows={4}>
          {(data) => (
            <Stack gap="sm">
              {data.pages[0]?.entries.length === 0 && (
                <Text size="sm" c="dimmed">
                  Nothing happened in the last 400 days. Older entries are removed.
                </Text>
              )}
              <ol className={styles.list}>
                {data.pages.flatMap(({ entries }) =>
                  entries.map((entry) => <Entry key={entry.id} entry={entry} />),
                )}
              </ol>
              {pages.hasNextPage && <More pages={pages} more="Show earlier entries" />}
            </Stack>
          )}
        </Loaded>
      </Panel>
    </div>
  );
}

/** Who may read the audit log finds there also what was tried and refused, and from which IP address. */
function AuditLink({ returnId }: { readonly returnId: string }) {
  if (!useSession().canCall('AuditService/ListAuditEntries')) return null;
  return (
    <Text size="sm" component="div">
      <Link to="/audit-log" search={{ return: returnId }}>
        Audit entries of this return
      </Link>
    </Text>
  );
}

/** What happened, where the text may be only what somebody wrote about it. */
const HAPPENED: Readonly<Record<string, string>> = {
  'return.flagged': 'Put into review',
  'return.unflagged': 'The review ended',
  'return.cancelled': 'The return was cancelled',
  'return.cancellation.queued': 'The cancellation was requested',
};

/** What somebody reported, perhaps some time after it happened. */
const REPORTED = new Set(['return.arrived', 'line.graded', 'line.assessed', 'label.updated']);

/** What happened, and what somebody wrote about it. */
export function entryText(entry: TimelineEntry): string {
  const { kind, text } = entry;
  const happened = HAPPENED[kind];
  if (happened === undefined) return text || inWords(kind);
  return writtenText(entry) === '' ? text || happened : `${happened}: ${text}`;
}

/** What somebody wrote about it. Without a comment, some texts say themselves what happened. */
export function writtenText({ kind, text }: TimelineEntry): string {
  const happened = HAPPENED[kind];
  return happened !== undefined && text.startsWith(happened) ? '' : text;
}

function Entry({ entry }: { readonly entry: TimelineEntry }) {
  const facts = Object.entries(entry.facts);
  return (
    <li className={styles.entry}>
      <Text size="sm" style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
        {entryText(entry)}
      </Text>
      {facts.length > 0 && (
        <Text size="xs" c="dimmed" style={{ overflowWrap: 'anywhere' }}>
          {facts.map(([name, value]) => `${inWords(name)}: ${value}`).join(' · ')}
        </Text>
      )}
      <When entry={entry} />
    </li>
  );
}

/** Who did it, and when. */
export function When({ entry }: { readonly entry: TimelineEntry }) {
  const by = byText(entry.by);
  return (
    <SecondLine>
      {by !== '' && `${by}, `}
      {REPORTED.has(entry.kind) && 'reported '}
      <Time at={entry.occurredAt} />
    </SecondLine>
  );
}
