import { timestampMs } from '@bufbuild/protobuf/wkt';
import { useQuery } from '@connectrpc/connect-query';
import { Alert, Box, Text } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { TeamService } from '../../../../proto/gen/rms/portal/v1/team_pb.ts';
import { type Return, ReturnState } from '../../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  ReturnsService,
  type TimelineEntry,
} from '../../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { Bullets } from '../../parts/bullets.tsx';
import { Loaded, LoadingRows } from '../../parts/states.tsx';
import { type Moment, Time } from '../../parts/time/time.tsx';
import { useSession } from '../../session/session.tsx';
import { moneyText, roleName } from '../../words.ts';
import { byText, entryText, TIMELINE_ID, useTimeline, When } from './timeline.tsx';

// Why a return is in its state, and what processing made of it.

const route = getRouteApi('/returns/$returnId');

/** What processing made at the commerce provider: what, how much, to whom and when. */
export function Result({ about }: { readonly about: Return }) {
  const { state, archivedAt } = about;
  const isClosed = state === ReturnState.CLOSED;
  const effects = effectsOf(about);
  const title = isClosed ? (
    <>
      Processed <Time at={archivedAt} none="" />
    </>
  ) : (
    (ENDED[state] ?? 'Processing has not ended, and has made this so far')
  );
  return (
    <Alert color={isClosed ? 'green' : 'yellow'} role="status" title={title}>
      {effects.length === 0 ? (
        'No refund, gift card or order was to be made.'
      ) : (
        <Bullets items={effects} />
      )}
    </Alert>
  );
}

/** Titles of returns that ended without being processed. Only an exchange order is undone by a cancellation. */
const ENDED: Readonly<Partial<Record<ReturnState, string>>> = {
  [ReturnState.CANCELLED]: 'Made before the return was cancelled, which cancelled the order',
  [ReturnState.EXPIRED]: 'Made before the return expired',
};

/** What was made, each with a key, in words of people. */
function effectsOf(about: Return): [string, ReactNode][] {
  const { giftCardOrder, giftCardPresentment: card } = about;
  const made = (what: string, reference: string, at?: Moment): [string, ReactNode] => [
    `${what} ${reference}`,
    <>
      {what}
      {at && (
        <>
          {' '}
          on <Time at={at} />
        </>
      )}{' '}
      (reference {reference})
    </>,
  ];
  const amountOf = (money: Return['giftCardPresentment']) =>
    money ? moneyText(money.value, money.currency) : '';
  return [
    ...about.exchangeOrders.map(({ id, name }) =>
      made('Exchange order placed', name || String(id)),
    ),
    ...(giftCardOrder
      ? [
          made(
            `Gift card of ${amountOf(card)} issued to the shopper`,
            giftCardOrder.name || String(giftCardOrder.id),
          ),
        ]
      : []),
    ...about.refunds.map(({ providerRefundId, money, providerCreatedAt }) =>
      made(
        `${amountOf(money)} refunded to the shopper's original payment method`,
        providerRefundId,
        providerCreatedAt,
      ),
    ),
  ];
}

/** Why, by whom and when the return was cancelled, as its timeline says. */
export function Cancelled({ about }: { readonly about: Return }) {
  const timeline = useTimeline(about);
  const entry = timeline.data?.pages
    .flatMap(({ entries }) => entries)
    .find(({ kind }) => kind === 'return.cancelled');
  const title = entry?.facts.declined === undefined ? 'Cancelled' : 'Declined';
  return (
    <Alert color="gray" role="status" title={title}>
      <Loaded query={timeline} rows={1}>
        {() => {
          if (!entry) return 'The timeline says when, by whom and why.';
          return (
            <>
              {entryText(entry)}
              <When entry={entry} />
            </>
          );
        }}
      </Loaded>
    </Alert>
  );
}

/**
 * What somebody wrote when they put the return into review: often the condition on which the review may end. Nothing
 * when they gave only reasons, which the return has itself.
 */
export function ReviewComment({ about }: { readonly about: Return }) {
  const { data } = useQuery(
    ReturnsService.method.getTimeline,
    { returnId: about.id, pageSize: 1, kinds: ['return.flagged'] },
    { refetchInterval: 30_000 },
  );
  const [entry] = data?.entries ?? [];
  if (!entry || entry.text === about.flagReasons.join('; ')) return null;
  return (
    <Text size="sm" mt="xs" style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
      Comment of {byText(entry)}, <Time at={entry.occurredAt} />: {entry.text}
    </Text>
  );
}

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
            String(entry.id),
            <Line key={String(entry.id)} entry={entry} role={roles?.get(entry.actor?.id ?? '')} />,
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
  const { author, actor, occurredAt } = o.entry;
  const name = author || (actor?.name ?? '');
  const who = byText({
    author: name !== '' && o.role ? `${name} (${roleName(o.role)})` : name,
    actor,
  });
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
