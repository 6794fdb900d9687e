import { useInfiniteQuery } from '@connectrpc/connect-query';
import { Stack, Text } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { Actor_Kind, Actor_KindSchema } from '../../../../proto/gen/rms/common/v1/actor_pb.ts';
import type { Return } from '../../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  ReturnsService,
  type TimelineEntry,
} from '../../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { pagesEvery } from '../../api/pages.ts';
import { SecondLine } from '../../parts/cell-lines.tsx';
import { More } from '../../parts/more.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Loaded } from '../../parts/states.tsx';
import { Time } from '../../parts/time/time.tsx';
import { useSession } from '../../session/session.tsx';
import { inWords, wordOf } from '../../words.ts';
import styles from './timeline.module.css';

/** The timeline, newest first. Read again when the return has changed. */
export function useTimeline(about: Return) {
  return useInfiniteQuery(
    ReturnsService.method.getTimeline,
    { returnId: about.id, pageSize: 20, cursor: '' },
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
      <Panel title="Timeline" actions={<AuditLink returnId={String(about.id)} />}>
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
                  entries.map((entry) => <Entry key={String(entry.id)} entry={entry} />),
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

function happenedOf({ kind, facts }: TimelineEntry): string | undefined {
  return facts.declined === undefined ? HAPPENED[kind] : 'The return was declined';
}

/** What happened, and what somebody wrote about it. */
export function entryText(entry: TimelineEntry): string {
  const { kind, text } = entry;
  const happened = happenedOf(entry);
  if (happened === undefined) return text || inWords(kind);
  return writtenText(entry) === '' ? text || happened : `${happened}: ${text}`;
}

/** What somebody wrote about it. Without a comment, some texts say themselves what happened. */
export function writtenText(entry: TimelineEntry): string {
  const happened = happenedOf(entry);
  return happened !== undefined && entry.text.startsWith(happened) ? '' : entry.text;
}

/** The facts that the text does not say. Of an arrival the page shows all. */
function factsOf({ kind, facts }: TimelineEntry): [string, string][] {
  if (kind === 'return.arrived') return [];
  return Object.entries(facts).filter(([name]) => name !== 'declined');
}

function factText([name, value]: [string, string]): string {
  return value === 'true' ? inWords(name) : `${inWords(name)}: ${value}`;
}

function Entry({ entry }: { readonly entry: TimelineEntry }) {
  const facts = factsOf(entry);
  return (
    <li className={styles.entry}>
      <Text size="sm" style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
        {entryText(entry)}
      </Text>
      {facts.length > 0 && (
        <Text size="xs" c="dimmed" style={{ overflowWrap: 'anywhere' }}>
          {facts.map(factText).join(' · ')}
        </Text>
      )}
      <When entry={entry} />
    </li>
  );
}

/** Who did it, and when. */
export function When({ entry }: { readonly entry: TimelineEntry }) {
  const by = byText(entry);
  return (
    <SecondLine>
      {by !== '' && `${by}, `}
      {REPORTED.has(entry.kind) && 'reported '}
      <Time at={entry.occurredAt} />
    </SecondLine>
  );
}

const KINDS: Readonly<Partial<Record<Actor_Kind, string>>> = {
  [Actor_Kind.API_KEY]: 'API key',
  [Actor_Kind.PARTNER_APP]: 'Partner app',
};

/**
 * Who did it, and through what; empty when unknown. An imported entry has the name of a person who never acted in this
 * service. That name wins.
 */
export function byText({ author, actor }: Pick<TimelineEntry, 'author' | 'actor'>): string {
  if (!actor || actor.kind === Actor_Kind.UNSPECIFIED) return '';
  const { kind, through } = actor;
  const name = author || actor.name;
  const prefix = KINDS[kind];
  if (prefix !== undefined) return name === '' ? prefix : `${prefix} ${name}`;
  const who = name || inWords(wordOf(Actor_KindSchema, kind));
  if (through === '') return who;
  return through === 'portal' ? `${who} in the portal` : `${who} with the ${through}`;
}
