import { timestampMs } from '@bufbuild/protobuf/wkt';
import { useQuery } from '@connectrpc/connect-query';
import { Box, Text } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import type { Return } from '../../../../proto/gen/rms/portal/v1/return_pb.ts';
import type { TimelineEntry } from '../../../../proto/gen/rms/portal/v1/returns_pb.ts';
import { TeamService } from '../../../../proto/gen/rms/portal/v1/team_pb.ts';
import { Bullets } from '../../parts/bullets.tsx';
import { LoadingRows } from '../../parts/states.tsx';
import { Time } from '../../parts/time.tsx';
import { useSession } from '../../session/session.tsx';
import { roleName } from '../../words.ts';
import { byText } from './by-text.ts';
import { entryText, TIMELINE_ID, useTimeline } from './timeline.tsx';

const route = getRouteApi('/returns/$returnId');

/** Number of entries that are shown. */
const SHOWN = 5;
/** Length of a text that is shown whole. The timeline has all of it. Characters. */
const TEXT_MAX = 240;

/**
 * What happened since the return was put into review: often what the review waits for. Nothing is shown when nothing
 * happened. When the timeline could not be read, the panel of the timeline says so.
 */
export function SinceFlagged({ about }: { readonly about: Return }) {
  const { data, hasNextPage, error } = useTimeline(about);
  const roles = useRoles();
  if (!error && (!data || !roles)) return <LoadingRows rows={1} />;
  const later = sinceFlag(data?.pages.flatMap(({ entries }) => entries) ?? [], hasNextPage);
  if (later.length === 0) return null;
  return (
    <Box mt="xs">
      <Text size="sm" fw={600}>
        What happened since then
      </Text>
      <Bullets
        items={later
          .slice(0, SHOWN)
          .map((entry) => [
            entry.id,
            <Line key={entry.id} entry={entry} role={roles?.get(entry.by?.id ?? '')} />,
          ])}
      />
      {later.length > SHOWN && `These are the newest ${SHOWN}. `}
      <route.Link to="." hash={TIMELINE_ID} activeOptions={{ includeHash: true }}>
        Show the timeline
      </route.Link>
    </Box>
  );
}

/**
 * The roles of the members by their user ids. Empty for a user who may not read them; undefined while they are loaded.
 */
function useRoles(): ReadonlyMap<string, string> | undefined {
  const { listMembers } = TeamService.method;
  const mayList = useSession().can(listMembers);
  const { data, isPending } = useQuery(listMembers, {}, { enabled: mayList });
  if (mayList && isPending) return undefined;
  return new Map<string, string>(data?.members.map(({ userId, role }) => [userId, role]));
}

/**
 * The entries after the newest flag. What was written with the flag itself, such as the request of a label with a
 * return that was submitted flagged, did not happen since.
 *
 * @param entries newest first.
 * @param isCut whether there are older ones. Every return in review has a flag, so without one all entries are later.
 */
function sinceFlag(entries: readonly TimelineEntry[], isCut: boolean): readonly TimelineEntry[] {
  const place = entries.findIndex(({ kind }) => kind === 'return.flagged');
  const flag = entries[place];
  if (!flag) return isCut ? entries : [];
  return entries.slice(0, place).filter((entry) => timeOf(entry) > timeOf(flag));
}

function timeOf({ occurredAt }: TimelineEntry): number {
  return occurredAt ? timestampMs(occurredAt) : 0;
}

/** What happened, and before it when, and by whom with the role. */
function Line(o: { readonly entry: TimelineEntry; readonly role: string | undefined }) {
  const { by, occurredAt } = o.entry;
  const name = by?.name && o.role ? `${by.name} (${roleName(o.role)})` : by?.name;
  const who = byText(by && { ...by, name: name ?? '' });
  return (
    <>
      <Time at={occurredAt} />
      {who !== '' && `, ${who}`}: {cut(entryText(o.entry))}
    </>
  );
}

function cut(text: string): string {
  return text.length <= TEXT_MAX ? text : `${[...text].slice(0, TEXT_MAX).join('')}…`;
}
